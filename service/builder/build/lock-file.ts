/**
 * Whether npm may install what a package-lock.json names: releases of a registry, each with its digest, and packages of the
 * repository itself. Pure.
 */
import { tried } from "../../tried.ts";
import { listed } from "../run/setback.ts";

/** Of `packages`; what npm reads of it, in any type. */
type Entry = Readonly<Partial<Record<"name" | "version" | "resolved" | "integrity" | "link" | "inBundle", unknown>>>;

/** Where npm puts a package: below others, too. */
const place = /^node_modules\/(@[\w.~-]+\/)?[\w~-][\w.~-]*(\/node_modules\/(@[\w.~-]+\/)?[\w~-][\w.~-]*)*$/;
/** Of an alias. In another form npm reads a repository or a file. */
const name = /^(@[\w.~-]+\/)?[\w~-][\w.~-]*$/;
const version = /^\d[\w.+-]*$/;
/** Of a package of the repository, from the lock file's. */
const folder = /^(?!(.*\/)?(\.{1,2}|node_modules)(\/|$))[\w@~.-]+(\/[\w@~.-]+)*$/;
const digests = /^(sha(1|256|384|512)-[A-Za-z0-9+/]+=* ?)+$/;

const renew = "Run rm -r node_modules package-lock.json && npm install, and commit package-lock.json.";

/**
 * The folders that the file links: npm's workspaces, such as the one that `hugo mod npm pack` writes for what a theme needs.
 * By npm's own order of keys, as the builder does not parse the file.
 */
export const linkedFolders = (text: string): string[] =>
  [...text.matchAll(/"resolved"\s*:\s*"([^"\\]+)",\s*"link"\s*:\s*true/g)].flatMap(([, path = ""]) =>
    folder.test(path) ? [path] : [],
  );

/** `linked`: the folders that a link may lead to. */
function foreign(path: string, entry: Entry, linked: readonly string[]): string | undefined {
  if (!place.test(path)) return "a folder";
  if (entry.link !== undefined) return linked.includes(`${entry.resolved}`) ? undefined : "a folder";
  if (entry.resolved !== undefined && !/^https:\/\/[^/]/.test(`${entry.resolved}`)) return `${entry.resolved}`;
  const isRelease = version.test(`${entry.version}`) && name.test(`${entry.name ?? "x"}`);
  return isRelease ? undefined : `${entry.name ?? ""} ${entry.version}`.trim();
}

/** Those of a bundle are in the archive of another package, those of a link in the repository. */
const hasDigest = ({ integrity, inBundle, link }: Entry): boolean =>
  inBundle === true || link !== undefined || digests.test(`${integrity}`);

/** What is wrong with the file, and what to do; undefined if nothing is. `has`: whether the repository has a file. */
export function lockFault(text: string, has = (_path: string) => false): string | undefined {
  const lock: { packages?: Record<string, Entry | null> } | null | undefined = tried(() => JSON.parse(text));
  if (lock === undefined) return `package-lock.json is no JSON. ${renew}`;
  if (typeof lock?.packages !== "object" || lock.packages === null)
    return `package-lock.json has no "packages": npm 6 or an older one wrote it. ${renew}`;
  const linked = linkedFolders(text);
  const missing = linked.map((path) => `${path}/package.json`).filter((path) => !has(path));
  if (missing.length > 0)
    return `package-lock.json needs ${listed(missing)}, which the repository does not have. Commit it.`;
  // The one without a name is the repository's own package.
  const entries = Object.entries(lock.packages).filter(([path]) => !["", ...linked].includes(path));
  const strange = entries.flatMap(([path, entry]) => {
    const from = foreign(path, entry ?? {}, linked);
    return from === undefined ? [] : [`${path.replace(/^.*node_modules\//, "")} (${from})`];
  });
  if (strange.length > 0)
    return `package-lock.json names what is no release of a registry: ${listed(strange)}. Use a release of it, or commit node_modules.`;
  const bare = entries.filter(([, entry]) => !hasDigest(entry!)).map(([path]) => path);
  return bare.length > 0 ? `package-lock.json has no digest (integrity) of ${listed(bare)}. ${renew}` : undefined;
}
