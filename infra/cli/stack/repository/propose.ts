/** From what a repository's files say to keys of its site, each with the reason. Pure. */
import { posix } from "node:path";
import { isHugos, newLayouts } from "../../../../service/builder/build/hugo.ts";
import { publicDomains, repositoryOf } from "../../../../service/git-hosts/repository.ts";
import { ownVariables } from "../../../config/site-checks.ts";
import { flags, oldest } from "../../../config/site-schema.ts";
import { isOlder } from "../../../config/tools.ts";
import type { Files } from "./read.ts";
import { below, buildOf, folderOf, merged, packagesOf, parsed, type Recipe, recipesOf, releasesIn } from "./recipes.ts";

/** The newest release of a project, or of a line such as Node 22, that is not older than `least`; or `least` itself. */
export type Wanted = Readonly<{ line?: string | undefined; least?: string | undefined; isLeast?: boolean }>;
/** `key`: below the site, with what it should be; without one there is nothing to set, or a person has to decide. */
export type Finding = { readonly says: string; readonly key?: string; readonly value?: string | true | Wanted };
const set = (key: string, value: string | true | Wanted, says: string): Finding => ({ key, value, says });
/** Those that apply. */
const some = (...findings: readonly (Finding | string | false)[]): Finding[] =>
  findings.flatMap((one) => (one === false ? [] : typeof one === "string" ? [{ says: one }] : [one]));

type Themes = ReadonlyMap<string, Files>; // those that are submodules, by their paths
/** `at`: its folder, with a slash. */
type Site = Readonly<{ files: Files; at: string; recipes: readonly Recipe[]; config: object }>;

const configuration = /^(?:(.+?)\/)??(?:config\/_default\/(?:hugo|config)|hugo|config)\.(?:toml|ya?ml|json)$/;
const ofConfig = /^(config\/(?:_default|production)\/(?=[^/]+$)|(?=(?:hugo|config)\.))([\w-]+)\.(?:toml|ya?ml|json)$/;
const otherFolders = /(^|\/)(\.[^/]+|archetypes|content|exampleSite|layouts|node_modules|themes|_vendor)\//;
const hugosPackages = /^(postcss(-cli)?|tailwindcss|@tailwindcss\/cli|autoprefixer|rtlcss|@babel\/(cli|core))$/;
const programs = /^(python3?|make|ruby|bundle|bash|sh|[\w.-]+\/|node|npx|yarn|pnpm|npm run|go run)\b/;
const ofHugo = /^(HUGO_(?!(VERSION|EXTENDED)$)|HUGOxPARAMSx)/;
/** What a build sets itself, what has no meaning for its result, and what has a key or a variable here. */
const known =
  /^(-[bdestvM]|--(baseURL|cacheDir|cleanDestinationDir|debug|destination|enableGitInfo|environment|forceSyncStatic|logLevel|minify|no(Chmod|Times)|quiet|source|templateMetrics(Hints)?|theme|themesDir|verbose(Log)?))$/;

const textOf = (value: unknown): string => (["string", "number"].includes(typeof value) ? String(value) : "");
const bare = (url: string): string => url.replace(/\/$/, "");
const quoted = (names: readonly string[]): string => `\`${[...new Set(names)].slice(0, 3).join("`, `")}\``;
/** "0.152" is 0.152.0; an edition, and the sign of a range, are left out. */
const exact = (version = ""): string | undefined => {
  const [, two, third = "0"] = /^(?:extended_)?[v^~]?(\d+\.\d+)(?:\.(\d+))?(?:$|[/_+-]?extended)/.exec(version) ?? [];
  return two && `${two}.${third}`;
};

type Asked = { readonly hostname?: string | undefined; readonly folder?: string | undefined };
export function findingsOf(files: Files, { hostname, folder }: Asked, themes?: Themes): Finding[] {
  const { path = folder, why = "as it is set" } = folder === undefined ? siteFolder(files) : {};
  if (path === undefined) return some(why);
  const at = path && `${path}/`;
  const site = { files, at, recipes: recipesOf(files, at), config: configOf(files, at) };
  const first = some(at !== "" && set("folder", path, why));
  return [...first, ...hugoRelease(site, themes), ...packages(site), ...sources(site), ...build(site, hostname)];
}

function siteFolder(files: Files): { path?: string; why: string } {
  const found = [...files.texts].flatMap(([path, text]) => {
    const [all, folder = ""] = configuration.exec(path) ?? [];
    const isSure = all !== undefined && isHugos(path, () => text);
    return all && (isSure || folder === "") ? [{ path, folder, isSure }] : [];
  });
  const named = recipesOf(files).find((one) => folderOf(one) && found.some(({ folder }) => folder === folderOf(one)));
  if (named) return { path: folderOf(named)!, why: `${named.from} builds there` };
  const all = found.filter(({ path }) => !otherFolders.test(path)).sort((a, b) => a.folder.length - b.folder.length);
  const sure = all.filter(({ isSure }) => isSure);
  const own = sure.length > 0 ? sure : all;
  const names = (all: typeof found) => quoted(all.map(({ path }) => path));
  if (own[0]) return { path: own[0].folder, why: `${names(own)} is Hugo's configuration` };
  const one = found.length > 0 ? `but in ${names(found)}. If that is the site, set site.folder` : "of the repository";
  return { why: `Hugo's configuration is in no folder ${one}` };
}

/** In a folder of `config`, a file with another name holds the key of that name. */
function configOf({ texts }: Files, at: string): object {
  const trees = [...texts.keys()].sort().map((path) => {
    const [, , name] = (path.startsWith(at) && ofConfig.exec(path.slice(at.length))) || [];
    const tree = name === undefined ? {} : parsed(path, texts.get(path));
    return name === undefined || /^(hugo|config)$/.test(name) ? tree : { [name]: tree };
  });
  return merged(trees);
}

/** The least release that the site, a theme or a layout needs, the latest first. */
function leastOf({ files, at, config }: Site, themes: Themes): (readonly [from: string, least: string])[] {
  const inConfig = (config: object) => textOf(below(config, "module", "hugoVersion", "min"));
  const layout = [...files.texts.keys()].find((path) => path.startsWith(at) && newLayouts.test(path.slice(at.length)));
  const named = [below(config, "theme")].flat().flatMap((name) => {
    const path = posix.join(at, textOf(below(config, "themesDir")) || "themes", textOf(name));
    const [theme, inside] = themes.has(path) ? [themes.get(path)!, ""] : [files, `${path}/`];
    const file = parsed("theme.toml", theme.texts.get(`${inside}theme.toml`));
    return [textOf(file.min_version), inConfig(configOf(theme, inside))].map((least) => [path, least] as const);
  });
  const all = [["Hugo's configuration", inConfig(config)], ...named, [layout ?? "", layout && "0.146.0"]] as const;
  const found = all.flatMap(([from, least]) => (exact(least) ? [[from, exact(least)!] as const] : []));
  return found.sort(([, a], [, b]) => Number(isOlder(a, b)) - Number(isOlder(b, a)));
}

function hugoRelease(site: Site, themes: Themes = new Map()): Finding[] {
  const asked = releasesIn(site.recipes, "hugo");
  const [[from, least] = ["", "0"]] = leastOf(site, themes);
  const needed = from && `${from} needs ${least} or later`;
  const [first, ...others] = asked.filter(({ version }) => exact(version));
  const version = exact(first?.version);
  const older = version && isOlder(version, oldest) ? `${version}, and pushgate knows none before this` : "it";
  const different = others.filter((other) => exact(other.version) !== version);
  const why = [
    ...(first ? [`${first.from} has ${older}`] : []),
    ...(first ? different : asked).map((other) => `${other.from} has ${other.version}`),
    ...(needed && (!version || isOlder(version, least)) ? [needed] : []),
  ].join("; ");
  if (version) return [set("tools.hugo", older === "it" ? version : oldest, why)];
  // A release after the one that a theme is written for may lack what it uses. A layout says only that it is later.
  return asked.length > 0 || isOlder(oldest, least)
    ? [set("tools.hugo", { least, ...(asked.length === 0 && !newLayouts.test(from) && { isLeast: true }) }, why)]
    : some("no file names a release of Hugo: the distribution's builds the site");
}

function packages({ files: { texts }, at, recipes, config }: Site): Finding[] {
  const [[sass], [node]] = [releasesIn(recipes, "sass"), releasesIn(recipes, "node")];
  const layoutWith = (words: RegExp) =>
    [...texts].find(([path, text]) => path.includes("layouts/") && words.test(text))?.[0];
  const layout = layoutWith(/dartsass/i);
  const manifest = parsed("package.json", texts.get(`${at}package.json`));
  const all = Object.entries(packagesOf(manifest));
  // Of what the site's modules need.
  const packs = JSON.stringify(manifest).includes('"packages/hugoautogen"');
  const tools = all.flatMap(([name]) => (hugosPackages.test(name) ? [name] : []));
  const isConfigured = JSON.stringify(config).includes("node_modules");
  const naming = isConfigured ? "Hugo's configuration" : layoutWith(/node_modules|js\.Build/);
  const isNeeded = packs || tools.length > 0 || (all.length > 0 && naming !== undefined);
  const isLocked = isNeeded && texts.has(`${at}package-lock.json`);
  const isForeign = (from: unknown) => /^(git|file:(\.\.|\/)|link:|https?:|[\w-]+\/)/.test(textOf(from));
  const foreign = all.flatMap(([name, from]) => (isNeeded && isForeign(from) ? [name] : []));
  const why = `${at}package.json has ${tools.length > 0 ? quoted(tools) : `packages for ${packs ? "Hugo modules" : naming}`}`;
  const ofNode = node ? `${node.from} has ${node.version}` : "npm is a part of it";
  // ">=18" names no line, and npm of a line before 16 cannot read the lock files of today.
  const [, line, rest = ""] = /^[v^~]?(1[6-9]|[2-9]\d)(\.\d+\.\d+$)?/.exec(node?.version ?? "") ?? [];
  return some(
    (sass ?? layout) !== undefined && set("tools.sass", exact(sass?.version) ?? {}, `${sass?.from ?? layout} uses it`),
    isLocked && set("tools.node", rest ? line + rest : { line }, ofNode),
    isLocked && set("npm", true, `${why}, and package-lock.json`),
    foreign.length > 0 && `site.npm rejects what is from no registry: ${quoted(foreign)}`,
    isNeeded &&
      !isLocked &&
      `${why}, but no lock file. If Hugo runs them: ${packs ? "hugo mod npm pack && " : ""}npm install --package-lock-only, and commit ${packs ? "packages/hugoautogen and package-lock.json" : "it"}`,
  );
}

function sources({ files: { texts, links }, at, config, recipes }: Site): Finding[] {
  const [goMod = "", module] = [texts.get(`${at}go.mod`), below(config, "module")];
  const isUsed =
    /^[ \t]*require\b/m.test(goMod) || /"path":"[^"]+\//.test(JSON.stringify(below(module, "imports") ?? ""));
  const isReplaced =
    /=>/.test(goMod.replace(/\/\/.*/g, "")) ||
    ["workspace", "replacements"].some((key) => below(module, key) !== undefined);
  const ways = [
    [texts.has(`${at}_vendor/modules.txt`), "nothing to set, they are in _vendor"],
    [isReplaced, "some are replaced, which is not followed. Run hugo mod vendor, and commit _vendor"],
    [texts.has(`${at}go.sum`), "nothing to set, they are fetched"],
    [true, "go.sum is missing. Run hugo mod tidy, and commit it"],
  ] as const;
  const modules = texts.get(".gitmodules") ?? "";
  const urls = [...modules.matchAll(/^[ \t]*url[ \t]*=[ \t]*((?:ssh:|[^/:\s]+@)\S+)/gm)].map(([, url]) => url!);
  const isPublic = (url: string) => Object.values<string>(publicDomains).includes(repositoryOf(url).host);
  const closed = urls.filter((url) => !isPublic(url));
  const isSet = below(config, "enableGitInfo") === true;
  const asks = recipes.some(
    (one) => one.variables.HUGO_ENABLEGITINFO === "true" || buildOf(one)?.options.includes("--enableGitInfo"),
  );
  const lfs = [...texts].some(([path, text]) => path.endsWith(".gitattributes") && /filter=lfs/.test(text));
  return some(
    isUsed && `Hugo modules: ${ways.find(([applies]) => applies)![1]}`,
    lfs && "Git LFS: nothing to set, its files are fetched",
    links.size > 0 && urls.some(isPublic) && "submodules over SSH: nothing to set, public ones are read over https",
    links.size > 0 && closed.length > 0 && `submodules over SSH: ${quoted(closed)} needs a deploy key and knownHosts`,
    isSet && "enableGitInfo: nothing to set",
    asks && !isSet && "enableGitInfo: set it in Hugo's configuration, as it is where the site is built now",
  );
}

function build({ at, recipes, config }: Site, hostname: string | undefined): Finding[] {
  const recipe = recipes.find((one) => !one.isReview && buildOf(one)) ?? recipes[0]!;
  const { from, variables } = recipe;
  const { option, options = [], before = recipe.steps, after = [] } = buildOf(recipe) ?? {};
  const given = (variable: string, ...names: string[]) =>
    [option?.(...names) ?? variables[variable]].find((value) => value !== undefined && !value.includes("$"));
  const isAllowed = (flag: string) => (flags as readonly string[]).includes(flag);
  const others = options.filter((flag) => !isAllowed(flag) && !known.test(flag));
  const ran = [...before.filter((one) => programs.test(one)), ...after.filter((one) => /^python|pagefind/.test(one))];
  const [url, own] = [given("HUGO_BASEURL", "-b", "--baseURL"), textOf(below(config, "baseURL"))];
  const [, host = url ?? own] = /^(?:https?:)?\/\/([^/:]+)/.exec(url ?? own) ?? [];
  const isKept = host === hostname || (host === "/" && own === "/");
  const ours = hostname === undefined || isKept ? url : `https://${hostname}/`;
  const environment = given("HUGO_ENVIRONMENT", "-e", "--environment") ?? "production";
  const themesDir = given("HUGO_THEMESDIR", "--themesDir");
  // A theme's own example: the repository is the theme, and a build has it in a folder of this name.
  const isTheme = themesDir !== undefined && posix.join(at, themesDir).startsWith("..");
  const theme = isTheme ? "source" : given("HUGO_THEME", "-t", "--theme");
  const all = Object.entries({ ...variables, HUGO_THEMESDIR: themesDir, HUGO_THEME: theme });
  const kept = all.filter(
    ([name, value = "$"]) => ofHugo.test(name) && !ownVariables.test(name) && !value.includes("$"),
  );
  const has = `${from} has it`;
  const other = ours === url ? has : `the site has ${(url ?? own) || "none"}`;
  return some(
    ours !== undefined && bare(ours) !== bare(own) && set("hugo.baseUrl", ours, other),
    environment !== "production" && set("hugo.environment", environment, has),
    ...[...new Set(options)].filter(isAllowed).map((flag) => set("hugo.arguments", flag, has)),
    ...kept.map(([name, value]) => set(`hugo.variables.${name}`, value!, has)),
    others.length > 0 && `${from} has ${quoted(others)}, for which there is no key: set it in Hugo's configuration`,
    ran.length > 0 && `${from} also runs ${quoted(ran)}, and a build runs Hugo alone: commit what it writes`,
  );
}
