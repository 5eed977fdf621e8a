/** Whether npm may install what a package-lock.json names: releases of a registry, each with its digest. Pure. */
import { listed } from "../builder/run/setback.ts";

/** Of `packages`; what npm reads of it, in any type. */
type Entry = Readonly<Partial<Record<"name" | "version" | "resolved" | "integrity" | "link" | "inBundle", unknown>>>;

/** Where npm puts a package: below others, too. */
const place = /^node_modules\/(@[\w.~-]+\/)?[\w~-][\w.~-]*(\/node_modules\/(@[\w.~-]+\/)?[\w~-][\w.~-]*)*$/;
/** Of an alias. In another form npm reads a repository or a file. */
const name = /^(@[\w.~-]+\/)?[\w~-][\w.~-]*$/;
const version = /^\d[\w.+-]*$/;
const digests = /^(sha(1|256|384|512)-[A-Za-z0-9+/]+=* ?)+$/;

const renew = "Run rm -r node_modules package-lock.json && npm install, and commit package-lock.json.";

function foreign(path: string, entry: Entry): string | undefined {
  if (entry.link !== undefined || !place.test(path)) return "a folder";
  if (entry.resolved !== undefined && !/^https:\/\/[^/]/.test(`${entry.resolved}`)) return `${entry.resolved}`;
  const isRelease = version.test(`${entry.version}`) && name.test(`${entry.name ?? "x"}`);
  return isRelease ? undefined : `${entry.name ?? ""} ${entry.version}`.trim();
}

/** Those of a bundle are in the archive of another package. */
const hasDigest = ({ integrity, inBundle }: Entry): boolean => inBundle === true || digests.test(`${integrity}`);

/** What is wrong with the file, and what to do; undefined if nothing is. */
export function lockFault(text: string): string | undefined {
  let lock: { readonly packages?: Readonly<Record<string, Entry | null>> } | null;
  try {
    lock = JSON.parse(text);
  } catch {
    return `package-lock.json is no JSON. ${renew}`;
  }
  if (typeof lock?.packages !== "object" || lock.packages === null)
    return `package-lock.json has no "packages": npm 6 or an older one wrote it. ${renew}`;
  // The one without a name is the repository's own package.
  const entries = Object.entries(lock.packages).filter(([path]) => path !== "");
  const strange = entries.flatMap(([path, entry]) => {
    const from = foreign(path, entry ?? {});
    return from === undefined ? [] : [`${path.replace(/^.*node_modules\//, "")} (${from})`];
  });
  if (strange.length > 0)
    return `package-lock.json names what is no release of a registry: ${listed(strange)}. Use a release of it, or commit node_modules.`;
  const bare = entries.filter(([, entry]) => !hasDigest(entry!)).map(([path]) => path);
  return bare.length > 0 ? `package-lock.json has no digest (integrity) of ${listed(bare)}. ${renew}` : undefined;
}
