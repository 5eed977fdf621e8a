/**
 * Modules, as go.mod and go.sum name them, from a proxy of Go modules: the versions that Go would choose, each go.mod and
 * each archive with the digest of go.sum. Go reads no go.mod that go.sum does not name.
 */
import { createHash } from "node:crypto";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Entry, openPromise } from "yauzl";
import { onDisk } from "../builder/build/disk.ts";
import { isConfiguration } from "../builder/build/hugo.ts";
import { counting, ifThere, tooMany } from "../builder/files.ts";
import { failed, mebibytes, rejected, Setback } from "../builder/run/setback.ts";
import { checksums, type FetchSettings } from "../builder/settings.ts";
import { exchange } from "../exchange.ts";
import { printable } from "../printable.ts";

/** By a module, which is "path version" as in go.sum, or by that and "/go.mod". */
type Sums = ReadonlyMap<string, string>;
type Into = (part: Buffer) => void;

const most = { modules: 1_000, modBytes: 1 << 20 } as const;

const differs = (what: string): Setback => rejected(`${what} has another digest than go.sum has.`);

/** `fits`: whether there may be one more path. */
export async function modules(wanted: string, fetched: string, { limits, fetcher }: FetchSettings, fits = counting()) {
  const until = Date.now() + 900 * limits.seconds; // a tenth is left to say why
  const [mod, sum] = ["go.mod", "go.sum"].map((name) => readFileSync(join(wanted, name), "utf8")) as [string, string];
  const sums = sumsIn(sum);
  const get = (module: string, kind: "mod" | "zip", bytes: number, into?: Into) =>
    ask(`${fetcher.registries.go}/${escaped(module).replace(" ", "/@v/")}.${kind}`, bytes, until, into);
  const chosen = await choose(requirements(mod, true), sums, (module) => get(module, "mod", most.modBytes));
  const brought = chosen.filter((module) => sums.has(module));
  if (brought.length === 0) throw rejected("go.sum has the digest of no module of go.mod.");

  const [vendor, archive] = [join(fetched, "_vendor"), join(fetched, "archive")];
  mkdirSync(vendor);
  const tooLarge = rejected(
    `the modules take more than ${mebibytes(limits.releaseBytes)} MiB. Raise hooks[].site.limits.releaseMiB.`,
  );
  let room = limits.releaseBytes;
  const admit = (name: string, size: number) => {
    room -= onDisk(size);
    if (room < 0) throw tooLarge;
    if (!fits(name)) throw rejected(`the modules have ${tooMany}.`);
  };
  const bring = async (module: string, sum: string | undefined) => {
    writeFileSync(archive, "");
    await get(module, "zip", limits.releaseBytes, (part) => appendFileSync(archive, part));
    if (statSync(archive).size >= limits.releaseBytes) throw tooLarge;
    const found = await unpack(archive, `${module.replace(" ", "@")}/`, join(vendor, pathOf(module)), admit);
    if (found !== sum) throw differs(`the archive of ${module}`);
  };
  for (const module of brought) await bring(module, sums.get(module));
  // For what a module's configuration imports, Go adds the digest of its go.mod alone to go.sum.
  const others = chosen.filter((module) => !sums.has(module) && sums.has(`${module}/go.mod`));
  for (const importing of brought) {
    const text = configurationOf(join(vendor, pathOf(importing)));
    for (const module of others.filter((other) => !brought.includes(other) && text.includes(pathOf(other)))) {
      const url = `${fetcher.registries.sums ?? checksums}/lookup/${escaped(module).replace(" ", "@")}`;
      const published = sumsIn(await ask(url, most.modBytes, until));
      if (published.get(`${module}/go.mod`) !== sums.get(`${module}/go.mod`))
        throw differs(`go.mod of ${module}, by ${checksums},`);
      await bring(module, published.get(module));
      brought.push(module);
    }
  }
  rmSync(archive);
  writeFileSync(join(vendor, "modules.txt"), brought.map((module) => `# ${module}\n`).join(""));
}

/** The configurations of a module, in one text. */
function configurationOf(folder: string): string {
  const paths = ["", "config/_default"].flatMap((place) =>
    (ifThere(() => readdirSync(join(folder, place))) ?? []).map((name) => join(place, name)),
  );
  return paths
    .filter(isConfiguration)
    .map((path) => readFileSync(join(folder, path), "utf8"))
    .join("\n");
}

/** The lines of go.sum, which are among those of the checksum database, too. */
const sumsIn = (text: string): Sums =>
  new Map([...text.matchAll(/^(\S+ \S+) (h1:\S+)$/gm)].map(([, what, sum]) => [what!, sum!]));

const pathOf = (module: string): string => module.replace(/ .*/, "");

/** A proxy has no capital letters. */
const escaped = (text: string): string => text.replace(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`);

const isModule = /^(?!\.)[\w.~-]+(\/(?!\.)[\w.~-]+)* v\d+\.\d+\.\d+[\w.+-]*$/;

/** Of a go.mod. `own`: the site's own, whose other lines count, too. */
function requirements(text: string, own = false): string[] {
  const words = text.replace(/\/\/.*|"/g, "");
  // The lines of a block begin with its verb.
  const lines = words.replace(/^[\t ]*(\w+)[\t ]*\(([^)]*)/gm, (_, verb, block) => block.replace(/^/gm, `${verb} `));
  const found = lines.matchAll(/^[\t ]*(require|replace|exclude)[\t ]+(\S+)[\t ]*(\S*)/gm);
  return [...found].flatMap(([, verb, path = "", version]) => {
    if (own && verb !== "require")
      throw rejected(`go.mod has "${verb} ${printable(path, 200)}", which no proxy brings.`);
    const module = `${path} ${version}`;
    return verb === "require" && isModule.test(module) ? [module] : [];
  });
}

/** The latest version of each module that any names (minimal version selection), in the order of paths. */
async function choose(first: readonly string[], sums: Sums, get: (module: string) => Promise<string>) {
  const chosen = new Map<string, string>();
  const seen = new Set<string>();
  const readMod = async (module: string): Promise<string[]> => {
    if (seen.has(module)) return [];
    if (seen.add(module).size > most.modules) throw rejected(`go.mod leads to more than ${most.modules} modules.`);
    const [path = "", version = ""] = module.split(" ");
    const former = chosen.get(path);
    if (former === undefined || orderOf(version) > orderOf(former)) chosen.set(path, version);
    const sum = sums.get(`${module}/go.mod`);
    if (sum === undefined) return [];
    const text = await get(module);
    if (hash1([["go.mod", sha256(text)]]) !== sum) throw differs(`go.mod of ${module}`);
    return requirements(text);
  };
  for (let found = first; found.length > 0; ) found = (await Promise.all(found.map(readMod))).flat();
  return [...chosen].map((words) => words.join(" ")).sort();
}

/** Texts in the order of Semantic Versioning: a number is before a word, and what comes before a release before it. */
export function orderOf(version: string): string {
  const [, numbers = "", before = "~"] = /^v([\d.]+)(?:-([^+]*))?/.exec(version) ?? [];
  const words = [...numbers.split("."), ...before.split(".")];
  return words.map((word) => (/^\d+$/.test(word) ? word.padStart(20, "0") : `:${word}`)).join("!");
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Go's `dirhash.Hash1`: over the digests of the files, in the order of their names' bytes. */
function hash1(files: Iterable<readonly [name: string, digest: string]>): string {
  const sorted = [...files].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const lines = sorted.map(([name, digest]) => `${digest}  ${name}\n`).join("");
  return `h1:${createHash("sha256").update(lines).digest("base64")}`;
}

/** The text of the answer, unless `into` gets it. */
async function ask(url: string, bytes: number, until: number, into?: Into, hops = 3): Promise<string> {
  const where = printable(url, 300);
  const seconds = Math.max(1, (until - Date.now()) / 1000);
  const asked = exchange({ url, headers: {} }, { seconds, bytes, keeps: true, into });
  const { status, headers, text } = await asked.catch((error: Error) => {
    throw failed(`${where} cannot be read: ${printable(error.message, 200)}.`);
  });
  if (status === 200) return text;
  const next = status < 400 && headers.location && new URL(headers.location, url);
  if (next && next.protocol === new URL(url).protocol && hops > 0) return ask(next.href, bytes, until, into, hops - 1);
  // A proxy keeps what it has: there is no such module.
  const fault = status === 404 || status === 410 ? rejected : failed;
  throw fault(`${where} has the status ${status}.`);
}

/** Unpacks what lies below `prefix`, which is all, into `folder`. Returns the archive's digest, as go.sum has it. */
async function unpack(archive: string, prefix: string, folder: string, admit: (name: string, size: number) => void) {
  const digests = new Map<string, string>();
  try {
    const zip = await openPromise(archive, { strictFileNames: true });
    for await (const entry of zip.eachEntry()) {
      const name = nameOf(entry, prefix);
      if (digests.has(entry.fileName)) throw new Error(`it has ${name} twice`);
      admit(name, entry.uncompressedSize);
      const [path, digest] = [join(folder, name), createHash("sha256")];
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "");
      for await (const part of await zip.openReadStreamPromise(entry)) {
        digest.update(part);
        appendFileSync(path, part);
      }
      digests.set(entry.fileName, digest.digest("hex"));
    }
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    const ofHost = syscall !== undefined && !/^E(EXIST|ISDIR|NOTDIR|NAMETOOLONG)$/.test(code ?? "");
    if (error instanceof Setback || ofHost) throw error;
    throw rejected(`the archive of ${prefix.slice(0, -1)} is none of a module: ${printable(message, 300)}.`);
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
