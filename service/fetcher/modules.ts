/**
 * Modules, as go.mod and go.sum name them, from a proxy of Go modules: the versions that Go would choose, each go.mod and
 * each archive with the digest of go.sum. Go looks at no go.mod that go.sum does not name, and a build needs no archive
 * that it does not name.
 */
import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Entry, openPromise } from "yauzl";
import { onDisk } from "../builder/build/disk.ts";
import { counting, tooMany } from "../builder/files.ts";
import { mebibytes } from "../builder/run/setback.ts";
import { exchange } from "../exchange.ts";
import { printable } from "../printable.ts";
import { type Bring, Fault } from "./fault.ts";

type Module = readonly [path: string, version: string];

const most = { modules: 1_000, modBytes: 1 << 20 } as const;

export const modules: Bring = async (wanted, fetched, { limits, fetcher }, fits = counting()) => {
  const read = (name: string) => readFileSync(join(wanted, name), "utf8");
  const sums = new Map([...read("go.sum").matchAll(/^(\S+ \S+) (h1:\S+)$/gm)].map(([, what, sum]) => [what!, sum!]));
  const until = Date.now() + 900 * limits.seconds; // a tenth is left to say why
  const get = (module: Module, kind: "mod" | "zip", bytes: number, into?: (part: Buffer) => void) =>
    ask(`${fetcher.registries.go}/${module.map(escaped).join("/@v/")}.${kind}`, bytes, until, into);
  const chosen = await choose(requirements(read("go.mod"), true), sums, (module) => get(module, "mod", most.modBytes));

  const archives = chosen.filter((module) => sums.has(module.join(" ")));
  if (archives.length === 0) throw new Fault("fault", "go.sum has the digest of no module of go.mod.");
  const [vendor, archive] = [join(fetched, "_vendor"), join(fetched, "archive")];
  mkdirSync(vendor);
  let room = limits.releaseBytes;
  const admit = (name: string, size: number) => {
    room -= onDisk(size);
    if (room < 0) throw tooLarge(limits.releaseBytes);
    if (!fits(name)) throw new Fault("fault", `the modules have ${tooMany}.`);
  };
  for (const module of archives) {
    const [path, version] = module;
    let size = 0;
    await withOpen(archive, (write) =>
      get(module, "zip", limits.releaseBytes, (part) => {
        size += part.length;
        if (size <= limits.releaseBytes) write(part);
      }),
    );
    if (size >= limits.releaseBytes) throw tooLarge(limits.releaseBytes);
    const sum = await unpack(archive, `${path}@${version}/`, join(vendor, path), admit);
    if (sum !== sums.get(module.join(" "))) throw differs(`the archive of ${path} ${version}`);
  }
  rmSync(archive);
  writeFileSync(join(vendor, "modules.txt"), archives.map((module) => `# ${module.join(" ")}\n`).join(""));
};

const tooLarge = (bytes: number): Fault =>
  new Fault("fault", `the modules take more than ${mebibytes(bytes)} MiB, hooks[].site.limits.releaseMiB.`);

const differs = (what: string): Fault => new Fault("fault", `${what} has another digest than go.sum has.`);

/** In which a proxy has no capital letters. */
const escaped = (text: string): string => text.replace(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`);

const isPath = /^(?![.])[\w.~-]+(\/(?![.])[\w.~-]+)*$/;
const isVersion = /^v\d+\.\d+\.\d+[\w.+-]*$/;

/** Of a go.mod. `own`: the site's own, whose other lines count, too. */
function requirements(text: string, own = false): Module[] {
  let block: string[] = [];
  return text.split("\n").flatMap((line) => {
    const words = line
      .replace(/\/\/.*/, "")
      .split(/\s+/)
      .filter(Boolean);
    if (words[0] === ")") block = [];
    else if (words.at(-1) === "(") block = words.slice(0, -1);
    else if (words.length > 0) {
      const [verb = "", path = "", version = ""] = [...block, ...words].map((word) => word.replace(/^"(.*)"$/, "$1"));
      if (own && (verb === "replace" || verb === "exclude"))
        throw new Fault("fault", `go.mod has "${verb} ${printable(path, 200)}", which no proxy brings.`);
      if (verb === "require" && isPath.test(path) && isVersion.test(version)) return [[path, version] as const];
    }
    return [];
  });
}

/** The latest version of each module that any names (minimal version selection), in the order of paths. */
async function choose(
  first: readonly Module[],
  sums: ReadonlyMap<string, string>,
  get: (module: Module) => Promise<string>,
): Promise<Module[]> {
  const chosen = new Map<string, string>();
  const seen = new Set<string>();
  for (let found = first; found.length > 0; ) {
    const fresh = new Map(
      found.filter((module) => !seen.has(module.join(" "))).map((module) => [module.join(" "), module]),
    );
    for (const [name, [path, version]] of fresh) {
      seen.add(name);
      if (isLater(version, chosen.get(path) ?? "")) chosen.set(path, version);
    }
    if (seen.size > most.modules) throw new Fault("fault", `go.mod leads to more than ${most.modules} modules.`);
    const next = [...fresh].map(async ([name, module]) => {
      const sum = sums.get(`${name}/go.mod`);
      if (sum === undefined) return [];
      const text = await get(module);
      if (hash1([["go.mod", sha256(text)]]) !== sum) throw differs(`go.mod of ${name}`);
      return requirements(text);
    });
    found = (await Promise.all(next)).flat();
  }
  return [...chosen].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** By Semantic Versioning: a release is later than what comes before it, and a word than a number. */
export function isLater(a: string, b: string): boolean {
  const [[first = "", before = ""], [other = "", otherBefore = ""]] = [a, b].map((version) =>
    /^v?([\d.]*)-?([^+]*)/.exec(version)!.slice(1),
  ) as [string[], string[]];
  const order = first.localeCompare(other, "en", { numeric: true });
  if (order !== 0) return order > 0;
  if (before === "" || otherBefore === "") return before === "" && otherBefore !== "";
  const [words, others] = [before.split("."), otherBefore.split(".")];
  const at = words.findIndex((word, i) => word !== others[i]);
  const [word, against] = [words[at], others[at]];
  if (word === undefined || against === undefined) return word !== undefined;
  const [isNumber, isOtherNumber] = [word, against].map((one) => /^\d+$/.test(one));
  if (isNumber !== isOtherNumber) return !isNumber;
  return isNumber ? Number(word) > Number(against) : word > against;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Go's `dirhash.Hash1`: over the digests of the files, in the order of their names' bytes. */
function hash1(files: Iterable<readonly [name: string, digest: string]>): string {
  const sorted = [...files].map(([name, digest]) => [Buffer.from(name), digest] as const);
  sorted.sort(([a], [b]) => Buffer.compare(a, b));
  const sum = createHash("sha256");
  for (const [name, digest] of sorted) sum.update(`${digest}  ${name}\n`);
  return `h1:${sum.digest("base64")}`;
}

/** The text of the answer, unless `into` gets it. */
async function ask(
  url: string,
  bytes: number,
  until: number,
  into?: (part: Buffer) => void,
  hops = 3,
): Promise<string> {
  const seconds = Math.max(1, (until - Date.now()) / 1000);
  const { status, headers, text } = await exchange({ url, headers: {} }, { seconds, bytes, keeps: true, into }).catch(
    (error: Error) => {
      throw new Fault("unavailable", `${printable(url, 300)} cannot be read: ${printable(error.message, 200)}.`);
    },
  );
  if (status === 200) return text;
  const next = status < 400 && headers.location && new URL(headers.location, url);
  if (next && next.protocol === new URL(url).protocol && hops > 0) return ask(next.href, bytes, until, into, hops - 1);
  // A proxy has what it has for good: 404 and 410 say that there is no such module.
  const isMissing = status === 404 || status === 410;
  throw new Fault(isMissing ? "fault" : "unavailable", `${printable(url, 300)} has the status ${status}.`);
}

const withOpen = async (path: string, use: (write: (part: Buffer) => void) => Promise<unknown>): Promise<void> => {
  const descriptor = openSync(path, "w");
  try {
    await use((part) => void writeSync(descriptor, part));
  } finally {
    closeSync(descriptor);
  }
};

/** Unpacks what lies below `prefix`, which is all, into `folder`. Returns the archive's digest, as go.sum has it. */
async function unpack(archive: string, prefix: string, folder: string, admit: (name: string, size: number) => void) {
  const digests = new Map<string, string>();
  try {
    const zip = await openPromise(archive, { strictFileNames: true });
    for await (const entry of zip.eachEntry()) {
      const name = nameOf(entry, prefix);
      if (digests.has(entry.fileName)) throw new Error(`it has ${name} twice`);
      admit(name, entry.uncompressedSize);
      const digest = createHash("sha256");
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      const stream = await zip.openReadStreamPromise(entry);
      await withOpen(join(folder, name), async (write) => {
        for await (const part of stream) {
          digest.update(part);
          write(part);
        }
      });
      digests.set(entry.fileName, digest.digest("hex"));
    }
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    const ofHost = syscall !== undefined && !/^E(EXIST|ISDIR|NOTDIR|NAMETOOLONG)$/.test(code ?? "");
    if (error instanceof Fault || ofHost) throw error;
    throw new Fault("fault", `the archive of ${prefix.slice(0, -1)} is none of a module: ${printable(message, 300)}.`);
  }
  return hash1(digests);
}

/** Below the prefix. Throws where an entry is no file, or has a name that leads elsewhere. */
function nameOf({ fileName, externalFileAttributes }: Entry, prefix: string): string {
  const type = (externalFileAttributes >>> 16) & 0o170000;
  const name = fileName.slice(prefix.length);
  const isFile = type === 0 || type === 0o100000;
  if (isFile && fileName.startsWith(prefix) && !name.split("/").some((part) => /^\.{0,2}$/.test(part))) return name;
  throw new Error(`its entry ${fileName} is no file below ${prefix}`);
}
