/** A site that pushgate serves, too: Pulumi.prod.yaml's, on any settings. */
import type { Settings, Site } from "../infra/config/settings.ts";
import { whole } from "./example.ts";

export const site: Site = whole.hooks[0]!.site!;
export const siteHostname: string = site.hostname!;

/** `changed` replaces keys of the site. */
export const serving = (settings: Settings, changed: Partial<Site> = {}): Settings => ({
  ...settings,
  hooks: settings.hooks.map((hook, i) => (i === 0 ? { ...hook, site: { ...site, ...changed } } : hook)),
});

export const served: Settings = whole;
