/** What a repository's files say of how its site is built elsewhere: at Netlify, in a workflow, by a version manager. Pure. */
import { parse as parseToml } from "smol-toml";
import { parse as parseYaml } from "yaml";
import { tried } from "../../../../service/tried.ts";
import { targetsOf } from "./makefile.ts";
import type { Files } from "./read.ts";

/** `values`: each text of the file by its key. `steps`: its commands one by one, with what package.json and Makefile run for them. */
export type Recipe = ReturnType<typeof recipe>;

type Tree = Readonly<Record<string, unknown>>;
const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);

/** The value below these keys, in any case, as Hugo reads them. */
export const below = (tree: unknown, ...keys: readonly string[]): unknown =>
  keys.reduce((node, key) => {
    const named = Object.entries(treeOf(node));
    return named.find(([name]) => name.toLowerCase() === key.toLowerCase())?.[1];
  }, tree);
const treeOf = (value: unknown): Tree => (isTree(value) ? value : {});
const treeBelow = (tree: unknown, ...keys: readonly string[]): Tree => treeOf(below(tree, ...keys));

/** Of several files, as Hugo reads them: keys in any case, and what two have below one key is of both. */
export function merged(trees: readonly Tree[]): Tree {
  const all: Record<string, unknown> = {};
  for (const [key, value] of trees.flatMap(Object.entries)) {
    const name = key.toLowerCase();
    all[name] = isTree(value) ? merged([treeBelow(all, name), value]) : value;
  }
  return all;
}

/** An empty tree for a text that is none of its format. */
export function parsed(path: string, text = ""): Tree {
  const ofYaml = (): unknown => parseYaml(text.replace(/^[ \t]*\/\/.*$/gm, ""), { logLevel: "silent" });
  return treeOf(tried(() => (path.endsWith(".toml") ? parseToml(text) : ofYaml())));
}

const workflow =
  /^\.((github|forgejo|gitea)\/workflows|woodpecker|circleci)\/[^/]+\.ya?ml$|^\.(gitlab-ci|woodpecker|drone|travis)\.ya?ml$/;
const publishes = /deploy|gh-pages|upload-pages|rsync|\bscp\b|s3 sync|firebase|^pages:/im;
const hosted = /^(amplify\.yml|render\.yaml|vercel\.json|wrangler\.(toml|jsonc?))$/;

/** Whether a workflow runs for pull requests, and not for what is published. */
function isReview({ on }: Tree): boolean {
  const events = isTree(on) ? Object.keys(on).join(" ") : String(on);
  return (
    /\bpull_request/.test(events) && !/\b(push|release|schedule|repository_dispatch|workflow_(call|run))\b/.test(events)
  );
}

/** In the order in which one outranks another: those that publish the site first. `at`: its folder, with a slash. */
export function recipesOf({ texts }: Files, at = ""): Recipe[] {
  const read = (path: string) => parsed(path, texts.get(path));
  const line = (path: string) => texts.get(path)?.trim().split("\n")[0];
  const netlify = read("netlify.toml");
  const [build, production] = [treeBelow(netlify, "build"), treeBelow(netlify, "context", "production")];
  const environment = { ...treeBelow(build, "environment"), ...treeBelow(production, "environment") };
  const files = [...texts.keys()]
    .filter((path) => hosted.test(path) || (workflow.test(path) && /hugo/i.test(texts.get(path)!)))
    .map((path) => {
      const tree = read(path);
      const isFirst = publishes.test(texts.get(path)!);
      return { path, tree, rank: isReview(tree) ? 3 : hosted.test(path) ? 2 : isFirst ? 0 : 1 };
    });
  const manifest = read(`${at}package.json`);
  const tools = (texts.get(".tool-versions") ?? "").split("\n").map((line) => line.trim().split(/\s+/).slice(0, 2));
  const trees: (readonly [from: string, tree: Tree])[] = [
    ["netlify.toml", { ...build, ...production, environment }],
    ...files
      .sort((a, b) => a.rank - b.rank || (a.path < b.path ? -1 : 1))
      .map(({ path, tree }) => [path, tree] as const),
    [".hugo-version", { hugo: line(".hugo-version") }],
    ...[".nvmrc", ".node-version"].map((path) => [path, { node: line(path) }] as const),
    [".tool-versions", Object.fromEntries(tools)],
    ...["mise.toml", ".mise.toml"].map((path) => [path, treeBelow(read(path), "tools")] as const),
    [`${at}package.json`, { ...treeBelow(manifest, "engines"), ...packagesOf(manifest) }],
    ["Dockerfile", { run: texts.get("Dockerfile")?.replace(/^(ENV +\w+) +/gm, "$1=") }],
  ];
  const topmost = at === "" ? manifest : read("package.json");
  const makefiles = [...new Set(["", at])].map((top) => targetsOf(texts.get(`${top}Makefile`)));
  const scripts = Object.assign({}, ...[topmost, manifest].map((one) => treeBelow(one, "scripts")), ...makefiles);
  return trees.map(([from, tree]) => recipe(from, tree, scripts));
}

export const packagesOf = (manifest: Tree): Tree =>
  Object.assign({}, ...["peerDependencies", "devDependencies", "dependencies"].map((key) => treeBelow(manifest, key)));

/** A variable may be written as `{ key, value }`, or have its value below it. */
function valuesOf(node: unknown, key = ""): (readonly [key: string, text: string])[] {
  if (Array.isArray(node)) return node.flatMap((one) => valuesOf(one, key));
  if (!isTree(node)) return node === undefined || node === null ? [] : [[key, String(node)]];
  if (!isTree(node.value) && node.value !== undefined) return valuesOf(node.value, String(node.key ?? key));
  return Object.entries(node).flatMap(([name, value]) => valuesOf(value, name));
}

const isVariable = /^(HUGO\w*|[A-Z][A-Z\d_]+)$/;
const isCommand = /^(run|(before_)?script|(pre|post)?(build)?_?commands?)$/i;
const running = /(?<![\w.-])(?:make(?: [\w.-]+)?|(?:npm|pnpm|yarn)(?: run)? ([\w:.-]+)(?: --(?= |$))?)/g;
const assignment = /\b(HUGO\w+|(?:DART_)?SASS_VERSION)=["']?([^\s"';&|]+)/g;

function recipe(from: string, tree: Tree, scripts: Tree) {
  let room = 1 << 20; // characters, as a script may run itself
  const run = (text: string): string =>
    text.replace(running, (as, name) => {
      const script = scripts[name ?? as];
      if (typeof script !== "string" || script.length > room) return as;
      room -= script.length + 1_000;
      return run(script);
    });
  const written = valuesOf(tree).map(
    ([key, text]) => [key, isCommand.test(key) ? run(text.replace(/(^|\s)#.*/gm, "")) : text] as const,
  );
  const assigned = written.flatMap(([, text]) => [...text.matchAll(assignment)]);
  const all = [...written, ...assigned.map(([, name = "", value = ""]) => [name, value] as const)];
  const variables = Object.fromEntries(all.filter(([key, text]) => isVariable.test(key) && text.length < 1_000));
  const resolved = (text: string): string =>
    text.replace(/\$\{\{ *env\.(\w+) *\}\}|\$\{?(\w+)\}?/g, (as, a?: string, b?: string) => variables[a ?? b!] ?? as);
  const values = all.map(([key, text]) => [key, resolved(text)] as const);
  const commands = values.filter(([key]) => isCommand.test(key));
  const steps = commands.flatMap(([, text]) => text.replace(/\\\n\s*/g, " ").split(/\n|&&|\|\||;|\|/));
  return { from, isReview: isReview(tree), values, variables, steps: steps.map((step) => step.trim()) };
}

const short: Readonly<Record<string, string>> = { D: "--buildDrafts", E: "--buildExpired", F: "--buildFuture" };

/** The recipe's last build, where it is a step of its own: its options, the value of one, and the steps around it. */
export function buildOf({ steps }: Recipe) {
  const call = /^(?:\w+=\S+ +|npx +|RUN +|\.\/|bin\/)*hugo(?: +build)?((?: +-.*)?)$/;
  const last = steps.findLastIndex((step) => call.test(step));
  if (last < 0) return undefined;
  const parts = call.exec(steps[last]!)![1]!.match(/(?:"[^"]*"|'[^']*'|\$\{\{[^}]{0,200}\}\}|[^\s"'])+/g) ?? [];
  const words = parts
    .map((part) => part.replace(/["']/g, ""))
    .flatMap((word) => (/^-[DEFvM]+$/.test(word) ? [...word.slice(1)].map((one) => short[one] ?? "-v") : [word]));
  const names = words.map((word) => word.split("=")[0]!);
  const option = (...of: string[]): string | undefined => {
    const at = names.findIndex((name) => of.includes(name));
    return /=(.*)/s.exec(words[at] ?? "")?.[1] ?? (at < 0 ? undefined : words[at + 1]);
  };
  const options = names.filter((name) => name.startsWith("-"));
  return { options, option, before: steps.slice(0, last), after: steps.slice(last + 1) };
}

/** Where the recipe builds: in the folder of `--source`, of `cd`, or of the service's own key. */
export function folderOf(recipe: Recipe): string | undefined {
  const { option, before = [] } = buildOf(recipe) ?? {};
  const entered = before.flatMap((step) => /^cd +["']?([^\s"']+)/.exec(step)?.[1] ?? []).at(-1);
  const [, named] =
    recipe.values.find(([key]) => /^(working-directory|base|rootDir(ectory)?|appRoot)$/.test(key)) ?? [];
  return (option?.("-s", "--source") ?? entered ?? named)?.replace(/^(\.?\/)+|^\.$|\/+$/g, "");
}

/** Keys whose values name a release, the first that is there deciding: a setup action reads its input, no variable. */
const releaseKeys = {
  hugo: [/^hugo-version$/, /^HUGO_VERSION$/, /^([\w:/-]*[:/])?(go)?hugo(-extended)?$/],
  sass: [/^dart-sass-version$/, /^(DART_)?SASS_VERSION$/, /^(dart-sass|sass-embedded)$/],
  node: [/^node-version$/, /^NODE_VERSION$/, /^node(js)?$/],
};
const inText = {
  hugo: /hugo(?:_extended)?(?:_withdeploy)?_v?(\d+\.\d+\.\d+)_|hugo[\w./-]{0,100}:(?:v|[a-z]+-)?(\d+\.\d+\.\d+)/,
  sass: /dart-sass-(\d+\.\d+\.\d+)-|(?:install.{0,200}|sass\/)(dart-sass)/,
  node: /^FROM node:(\d+[.\d]*)/m,
};

/** Each recipe's release of a tool, as written there. */
export const releasesIn = (recipes: readonly Recipe[], tool: keyof typeof releaseKeys) =>
  recipes.flatMap(({ from, values }) => {
    const known = values.filter(([, text]) => !text.includes("$"));
    const groups = releaseKeys[tool].map((key) => known.flatMap(([name, text]) => (key.test(name) ? [text] : [])));
    const [first] = groups.filter((texts) => texts.length > 0);
    const [, ...inside] = inText[tool].exec(values.map(([, text]) => text).join("\n")) ?? [];
    // Of a matrix, the first that is a number.
    const version = first?.find((text) => text !== "latest") ?? first?.[0] ?? inside.find(Boolean);
    // Without a version this action installs the latest.
    const isLatest = tool === "hugo" && values.some(([, text]) => text.startsWith("peaceiris/actions-hugo"));
    if (version === undefined && isLatest && !values.some(([name]) => name === "hugo-version"))
      return [{ from, version: "latest" }];
    return version === undefined ? [] : [{ from, version }];
  });
