/** The example with a published site that is served, too: Pulumi.prod.yaml's first hook, and what its defaults fill in. */
import { assetExtensions, buildPaths } from "../infra/build-paths.ts";
import type { Settings, Site } from "../infra/settings.ts";
import { example } from "./example.ts";

export const siteHostname = "www.example.org";

export const site: Site = {
  webRoot: "/var/www/site",
  content: "/srv/content/site",
  hostname: siteHostname,
  keep: [],
  paths: buildPaths,
  assets: assetExtensions,
  submodules: false,
  knownHosts: [],
  egress: [],
  hugo: { path: "/usr/bin/hugo", minimum: "0.111.3", exec: [], http: [] },
  reconcileMinutes: 15,
  limits: { memoryMiB: 1024, cpuPercent: 200, tasks: 256, seconds: 600, releaseMiB: 2048, pagesPercent: 50 },
};

/** `changed`: what this site's configuration says otherwise. */
export const serving = (settings: Settings, changed: Partial<Site> = {}): Settings => ({
  ...settings,
  hooks: settings.hooks.map((hook, i) => (i === 0 ? { ...hook, site: { ...site, ...changed } } : hook)),
});

export const served: Settings = serving(example);
