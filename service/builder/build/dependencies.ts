/**
 * What a build needs beside its repository. The fetcher, a unit without the clone, brings what a few files of the commit
 * name, with digests; it stays as long as these files do.
 */
import { lstatSync, mkdirSync, readFileSync, readlinkSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { printable } from "../../printable.ts";
import { tried } from "../../tried.ts";
import { beginningOf, few, ifThere, readText, remove, tooMany, walk, within, writeWhole } from "../files.ts";
import { makeOpen, type Places } from "../places.ts";
import { crypto } from "../release/hashed.ts";
import { failed, listed, rejected, type Setback } from "../run/setback.ts";
import { type BuilderSettings, checksums, type Ended, exits } from "../settings.ts";
import { setAside } from "./build.ts";
import { moduleAdvice, needsModules } from "./hugo.ts";
import { linkedFolders } from "./lock-file.ts";
import { openRelay } from "./relay.ts";
import { runUnit } from "./unit.ts";

/** `files`: of the site's folder; `text`: the beginning of one. */
export type Site = Readonly<{ files: readonly string[]; text: (path: string) => string }>;

type Kind = {
  /** Files of the site's folder that name the dependencies, and those that the text of the second one needs. */
  readonly names: readonly string[];
  readonly more?: (text: string) => readonly string[];
  /** The folder in which the build finds them; with a file in it whose path begins with `committed`, the repository has them. */
  readonly place: string;
  readonly committed: string;
  /** Throws where the repository needs what no fetch brings. */
  readonly isNeeded: (site: Site, settings: BuilderSettings) => boolean;
  /** Addresses whose hosts the fetch needs. `text`: of the files that name the dependencies. */
  readonly asks: (registries: BuilderSettings["fetcher"]["registries"], text: string) => readonly string[];
  /** After the fetcher's reason, where the repository is at fault. */
  readonly advice: string;
};

/** Where Go's public proxy has some of its archives. */
const archives = "https://storage.googleapis.com";

export const kinds: Readonly<Record<string, Kind>> = {
  modules: {
    names: ["go.mod", "go.sum"],
    ...{ place: "_vendor", committed: "modules.txt" },
    ...{ isNeeded: needsModules, advice: moduleAdvice },
    asks: ({ go, sums = checksums }) => [go, sums, archives],
  },
  packages: {
    names: ["package.json", "package-lock.json"],
    more: (lock) => linkedFolders(lock).map((folder) => `${folder}/package.json`),
    ...{ place: "node_modules", committed: "" },
    ...{ isNeeded: needsPackages, advice: "" },
    asks: ({ npm }, text) => [npm, ...(text.match(/(?<="resolved"\s*:\s*")https:\/\/[\w.-]+(?=\/)/g) ?? [])],
  },
};

/** Of a file that names dependencies. */
const mostBytes = 16 << 20;

/** `files`: of the checkout. Fetches what is needed and not there, and removes what is no longer needed. Throws Setback. */
export async function provideDependencies(settings: BuilderSettings, places: Places, files: readonly string[]) {
  const { folder = "" } = settings;
  const top = folder === "" ? "" : `${folder}/`;
  const own = files.filter((path) => path.startsWith(top)).map((path) => path.slice(top.length));
  const at = (path: string) => join(places.clone, folder, path);
  const site = { files: own, text: (path: string) => beginningOf(at(path), 1 << 20) };
  // Of a builder that was killed.
  for (const path of [places.wanted, places.fetched]) setAside(places, path);
  for (const [name, kind] of Object.entries(kinds)) {
    const { names, more = () => [], place, committed, isNeeded } = kind;
    const kept = join(places.dependencies, name);
    const fetches = !own.some((path) => path.startsWith(`${place}/${committed}`)) && isNeeded(site, settings);
    if (fetches) {
      const read = (paths: readonly string[]): Wanted =>
        paths.filter((path) => own.includes(path)).map((path) => [path, bytesOf(at(path), path)]);
      const named = read(names);
      const wanted = [...named, ...read(more(named[1]?.[1] ?? ""))];
      const key = crypto()
        .createHash("sha256")
        .update(JSON.stringify([settings.fetcher.node, wanted]))
        .digest("hex");
      if (readText(join(kept, "key")) !== key) await bring(settings, places, name, kind, wanted, key);
    } else remove(kept);
    mountPoint(at(place), place, fetches);
  }
}

/** Each with its bytes, as characters. */
type Wanted = readonly (readonly [path: string, bytes: string])[];

function bytesOf(path: string, name: string): string {
  if (lstatSync(path).size > mostBytes)
    throw rejected(`${name} is larger than ${mostBytes >> 20} MiB. Make it smaller.`);
  return readFileSync(path, "latin1");
}

/** "host:port" of an https address. */
const hostOf = (url: string): string =>
  url.toLowerCase().replace(/^https:\/\/([^/:]+)(:\d+)?.*/, (_, host, port = ":443") => host + port);

async function bring(settings: BuilderSettings, places: Places, name: string, kind: Kind, wanted: Wanted, key: string) {
  const { dependencies, fetched } = places;
  for (const [path, bytes] of wanted) {
    mkdirSync(join(places.wanted, name, dirname(path)), { recursive: true });
    writeFileSync(join(places.wanted, name, path), bytes, "latin1");
  }
  makeOpen(fetched);
  const asked = kind.asks(settings.fetcher.registries, wanted.map(([, bytes]) => bytes).join("\n"));
  const relay = await openRelay(join(places.wanted, "relay"), new Set(asked.map(hostOf)));
  const ended = await runUnit(settings, places, "fetcher").finally(relay.close);
  if (ended.result !== "success") throw reasonOf(ended, settings.limits.seconds, kind.advice, relay.said());
  check(join(fetched, name), kind, new Set(wanted.map(([path]) => dirname(path)).filter((folder) => folder !== ".")));
  mkdirSync(dependencies, { recursive: true });
  writeWhole(join(fetched, name, "key"), key);
  setAside(places, join(dependencies, name));
  // Not synced: where a power cut brings the former one back, its key is another.
  renameSync(join(fetched, name), join(dependencies, name));
  // The next kind has its own.
  for (const path of [places.wanted, fetched]) setAside(places, path);
}

/** Unless it climbs first, not above its folder, and then descends: so no other link on its way leads out. */
function leadsOut(link: string, to: string): boolean {
  const parts = to.split("/");
  const climbs = parts.findIndex((part) => part !== "..");
  return to.startsWith("/") || climbs >= link.split("/").length || parts.lastIndexOf("..") > climbs;
}

/** What came is of another account: the build reads it, and root mounts it. `own`: folders of the site that links may lead to. */
function check(folder: string, { place }: Kind, own: ReadonlySet<string>): void {
  const others = within(folder, (here) => {
    const isBad = (link: string) => {
      const to = readlinkSync(join(here, place, link));
      return leadsOut(link, to) && !own.has(normalize(`${place}/${dirname(link)}/${to}`));
    };
    const { links, others } = walk(join(here, place), few(`${place} has ${tooMany}.`));
    return [...others, ...links.filter(isBad)];
  });
  if (others.length > 0) throw rejected(`${place}: ${listed(others)} is neither a file nor a folder.`);
}

function needsPackages({ files }: Site, { fetcher }: BuilderSettings): boolean {
  if (fetcher.node === undefined) return false;
  if (files.includes("package.json") && files.includes("package-lock.json")) return true;
  const other = files.find((path) => /^(npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?)$/.test(path));
  const found = other ? `, but ${other}` : "";
  throw rejected(
    `site.npm is true, and Hugo's configuration has no package-lock.json beside it${found}. Run npm install, and commit package.json and package-lock.json.`,
  );
}

/** Makes it, or removes what an earlier commit had made. */
function mountPoint(path: string, name: string, isNeeded: boolean): void {
  if (!isNeeded) return void tried(() => rmdirSync(path)); // unless it is the repository's own
  if (!ifThere(() => lstatSync(path))) mkdirSync(path);
  if (!lstatSync(path).isDirectory()) throw rejected(`${name} in the repository is no folder. Remove it.`);
}

function reasonOf({ result, status, output }: Ended, seconds: number, advice: string, ofRelay: string): Setback {
  const said = printable(output.trim().split("\n").at(-1) ?? "", 1_000);
  switch (result === "exit-code" ? Number(status) : result) {
    case exits.rejected:
      return rejected(`${said} ${advice}`.trim());
    case exits.failed:
      return failed(`${said} ${ofRelay}`.trim());
    case "oom-kill":
      return failed("the fetch of dependencies reached its memory limit. Raise hooks[].site.limits.memoryMiB.");
    case "timeout":
      return failed(`the fetch of dependencies took longer than its ${seconds} s. Raise hooks[].site.limits.seconds.`);
    default: {
      const how = printable(`${result} ${status}`, 50);
      return failed(`the fetcher's unit ended by ${how}. See journalctl -u 'pushgate-fetcher-*'. Its output: ${said}`);
    }
  }
}
