/** Published sites that pushgate serves, too: the hooks whose `site` says a hostname. Every machine serves each. */
import type { Host, Settings } from "./settings.ts";

export type ServedSite = {
  readonly hook: string;
  readonly hostname: string;
  /** Leads to the current release. */
  readonly webRoot: string;
};

/** In the order of their hooks. */
export const servedSites = ({ hooks }: Pick<Settings, "hooks">): ServedSite[] =>
  hooks.flatMap(({ name, site }) =>
    site?.hostname === undefined ? [] : [{ hook: name, hostname: site.hostname, webRoot: site.webRoot }],
  );

/** All names this machine answers to on its origin port, that for hooks first. */
export const namesOf = (settings: Pick<Settings, "hooks">, { hostname }: Pick<Host, "hostname">): string[] => [
  hostname,
  ...servedSites(settings).map((site) => site.hostname),
];
