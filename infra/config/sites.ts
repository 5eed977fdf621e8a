/** The hooks whose pushes become a site: the rebuild's layers exist for these. */
import type { Hook, Settings, Site } from "./settings.ts";

export type SiteHook = Hook & { readonly site: Site };

export const sitesOf = ({ hooks }: Pick<Settings, "hooks">): SiteHook[] =>
  hooks.filter((hook): hook is SiteHook => hook.site !== undefined);
