/** The website of a hook: `hooks[].site`. Strict as schema.ts, which has the rest of the configuration. */
import * as v from "valibot";
import { amount } from "../../service/limits.ts";
import { formatNames } from "../../service/reporter/formats.ts";
import { branchFault } from "./forms.ts";
import {
  absolutePath,
  checked,
  described,
  dnsName,
  dnsPattern,
  extension,
  flag,
  knownHost,
  list,
  named,
  object,
  oneOf,
  pattern,
  range,
  relativePath,
  slug,
  some,
  text,
} from "./values.ts";

/**
 * What Hugo reads beside the folders that it mounts: configuration, its own and its tools', and dependencies. And a deploy
 * script. A path that ends in a slash is a folder and everything below it; `*` matches within a segment. Sorted.
 */
export const buildPaths: string[] = (
  ".*rc .*rc.* .gitmodules *.cjs *.js *.json *.mjs *.toml *.ts *.work *.yaml *.yml _vendor/ bin/deploy* config/ deploy* " +
  "go.mod go.sum resources/_gen/ scripts/deploy*"
).split(" ");

export const assetExtensions: string[] =
  "avif css eot gif ico jpeg jpg js map mjs otf png svg ttf wasm webp woff woff2".split(" ");

/** Flags that Hugo 0.111 to 0.168 know and that lead to no other folder. */
export const flags = [
  ...(["--buildDrafts", "--buildExpired", "--buildFuture", "--gc", "--ignoreCache", "--panicOnWarning"] as const),
  ...(["--printI18nWarnings", "--printPathWarnings", "--printUnusedTemplates"] as const),
] as const;

export const oldest = "0.111.3"; // Debian 12's

const hugo = object({
  baseUrl: v.exactOptional(
    text(
      /^https?:\/\/[A-Za-z0-9.-]+(:\d{1,5})?(\/[\w.~/+,@=-]*)?$/,
      "an address, such as https://www.example.org/",
      "Hugo's `baseURL`, where the site's own configuration has another.",
    ),
  ),
  environment: v.optional(
    text(/^[A-Za-z0-9][\w-]{0,63}$/, "a name, such as staging", "Hugo's environment, a folder of `config/`."),
    "production",
  ),
  arguments: list(oneOf(flags, ""), "Hugo's flags", "Flags of a build, beside `--minify`."),
  variables: named(
    text(/^[^\x00-\x1f\x7f]{0,1000}$/, "a text of one line"),
    "an object of names and texts, such as { HUGO_PARAMS_STAGE: beta }",
    "Variables of a build's environment, which are public: `HUGO_…`, `HUGOxPARAMSx…` and `NODE_ENV`.",
  ),
  exec: list(pattern, "regular expressions", "Hugo's `security.exec.allow`: programs a build may run."),
  http: list(pattern, "regular expressions", "Hugo's `security.http.urls`: URLs a build may read."),
});

const digest = text(/^[0-9a-f]{64}$/, "a SHA-256 in 64 digits from 0 to f", "SHA-256 of its archive.");
const release = object({
  version: text(/^\d+\.\d+\.\d+$/, "an exact release of three numbers, such as 1.2.3", "The release."),
  ...{ amd64: digest, arm64: digest },
});
const tool = (description: string) => v.exactOptional(described(release, description));

/** With digests: another archive at its place, or on the way, changes no host. */
const tools = described(
  object({
    hugo: tool("Hugo, extended; without it, the distribution's."),
    sass: tool("Dart Sass, which a build may then run."),
    node: tool("Node, in the build's PATH; without it, the distribution's."),
  }),
  "Exact releases of programs, which `npx pushgate tools` writes; each host installs them for this site.",
);

const buildLimits = object({
  memoryMiB: amount(128, 65_536, 1024, "a number of MiB", "Memory of a build."),
  cpuPercent: amount(10, 6_400, 200, "a percentage", "Processor time of a build, in percent of one processor."),
  tasks: amount(16, 4_096, 256, "a whole number", "Processes and threads of a build."),
  seconds: amount(10, 7_200, 600, "a number of seconds", "Time that a build may take."),
  releaseMiB: amount(1, 1_048_576, 2048, "a number of MiB", "Size of a release; a site may hold four times as much."),
  pagesPercent: amount(0, 100, 50, "a percentage", "Least pages, in percent of the last release's or the content's."),
});

const registry = (usual: string, description: string) => {
  const form = `an https:// URL with a DNS name in lower case, such as ${usual}`;
  const isRegistry = (url: string) => isMirror(`${url}/`);
  return v.optional(checked(isRegistry, form, description), usual);
};

const registries = object({
  go: registry("https://proxy.golang.org", "Proxy of Hugo modules."),
  npm: registry("https://registry.npmjs.org", "Registry of npm, for what a lock file has from that address."),
});

const isMirror = (url: string): boolean => /^[^?&=%]*$/.test(url) && isNotifyUrl(url);

/** Without user and password, as rendered files are public, and without an address, which no certificate names. */
const isNotifyUrl = (url: string): boolean => {
  const [, name = ""] = /^https:\/\/([a-z0-9.-]+)(?::\d{1,5})?\/[A-Za-z0-9._~/?&=+,@%-]*$/.exec(url) ?? [];
  return dnsPattern.test(name) && URL.canParse(url);
};

/** No character of an address has a meaning for sendmail or a unit, and none begins an option. */
const isMailUrl = (url: string): boolean =>
  /^mailto:[^,]+(,[^,]+){0,9}$/.test(url) &&
  /^(,[A-Za-z0-9][\w.+-]{0,63}@[a-z0-9.-]+)+$/.test(url.replace("mailto:", ",")) &&
  url.split(",").every((address) => dnsPattern.test(address.replace(/.*@/, "")));

const recipient = object({
  name: slug("Name of the recipient, by which `secrets.<hook>.notify` has its secret."),
  url: checked(
    (url) => isNotifyUrl(url) || isMailUrl(url),
    "an https:// URL with a DNS name in lower case and a path, such as https://chat.example.org/hooks/; or 1 to 10 addresses, such as mailto:team@example.org,ops@example.org",
    "Where it is sent. Of a webhook of Slack, Discord or Mattermost the part that is no secret, up to a slash; of Matrix up to `/send/m.room.message/`; of ntfy with the topic; of email the addresses.",
  ),
  format: oneOf(formatNames, "`email` leaves by the host's sendmail; `standard` is JSON, signed as Standard Webhooks."),
  published: flag("Report each build that is published, too."),
});

const previews = object({
  hostname: dnsName("preview.example.org", "Where pushgate serves them, each at `/<branch>/`."),
  branches: list(
    checked(
      (pattern) => branchFault(pattern.replace("*", "x")) === undefined,
      "a branch name with `*` once at most, for any characters, such as feature/*",
    ),
    "branches",
    "Branches beside the hook's own, with `*` for any characters.",
    ["*"],
  ),
  keep: amount(1, 50, 10, "a whole number", "Branches that have a preview: those with the newest commits."),
});

export const site = object({
  webRoot: absolutePath("/var/www/site", "Link that pushgate makes to the release; root alone may write above it."),
  content: v.exactOptional(absolutePath("/srv/content/site", "Content in place of the repository's own; only read.")),
  folder: v.exactOptional(
    v.pipe(
      relativePath("docs", "Folder of the site in the repository; without it, the site is at its top."),
      v.transform((text: string) => text.replace(/\/$/, "")),
    ),
  ),
  hostname: v.exactOptional(dnsName("www.example.org", "Hostname of the site, if pushgate is to serve it, too.")),
  folders: named(
    absolutePath("/srv/downloads", ""),
    "an object of names and absolute paths, such as { downloads: /srv/downloads }",
    "Folders on the host with files that no build makes: with `hostname`, pushgate serves each at `/<name>/`.",
  ),
  paths: v.exactOptional(
    some(
      relativePath("layouts/", "", "*"),
      "path",
      `Paths of the repository, beside the folders that Hugo mounts, below which a change triggers a build; \`*\` is a wildcard. Without it: \`.gitmodules\`, and in \`folder\`: \`${buildPaths.filter((path) => path !== ".gitmodules").join("` `")}\`.`,
    ),
  ),
  assets: list(extension, "extensions", "Extensions of files that open pages may still request.", assetExtensions),
  submodules: flag("Fetch the submodules that `.gitmodules` names, such as themes.", true),
  knownHosts: list(knownHost, "lines of known_hosts", "SSH host keys of the git host, for a repository over SSH."),
  egress: list(range, "private ranges", "Private ranges that a fetch may reach, without the host itself."),
  writers: v.exactOptional(
    text(/^(?!pushgate-)[a-z_][a-z0-9_-]{0,30}$/, "a group of your own", "Group whose members may request a build."),
  ),
  hugo: v.optional(described(hugo, "What outranks the site's own configuration, and what a build may reach."), {}),
  tools: v.optional(tools, {}),
  npm: flag("Install what `package-lock.json` names, and have Hugo run `postcss`, `tailwindcss`, `babel` and `node`."),
  mirror: v.exactOptional(
    checked(
      isMirror,
      "an https:// URL with a DNS name in lower case and a path, such as https://mirror.example.org/tools",
      "Folder from which hosts download the archives of `tools`, by their names, instead of each project's page.",
    ),
  ),
  registries: v.optional(described(registries, "Where hosts fetch what `go.mod` and `package-lock.json` name."), {}),
  schedule: v.exactOptional(
    text(
      // Nothing that a unit file or a shell reads as its own, and no crontab line. Each host's systemd reads the rest.
      /^(?! |.* \*( |$))[\w*.,:~/+ -]{1,100}(?<! )$/,
      'a calendar expression of systemd in quotes, such as "daily" or "Mon..Fri 06:00"',
      "When the site is built without a push, as for posts with a future date; in the host's time zone.",
    ),
  ),
  // A delivery that never arrived stays unpublished for as long.
  reconcileMinutes: amount(1, 60, 15, "a number of minutes", "Minutes between two fetches that no push triggered."),
  notify: list(recipient, "recipients", "Recipients of a report when builds begin to fail, and when they recover."),
  purge: flag("Purge from Cloudflare's cache what a publish changes, where a rule of the zone caches pages."),
  previews: v.exactOptional(described(previews, "Other branches, for reviews: built as the site, without `content`.")),
  limits: v.optional(described(buildLimits, "Limits for a build."), {}),
});
