/**
 * One file of a build into a release: a hard link to the published file of the same bytes, else a copy. The hash is of
 * the bytes that were written or compared, also where the build's file changes meanwhile.
 *
 * Not with rsync -c --link-dest: with the list of names, the meaning of its errors and the hashes for the manifest it
 * is as much code, takes 550 ms instead of 300 for 5,000 pages, and compares by xxh128, which is no cryptographic hash.
 */
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, linkSync, openSync, readSync, writeFileSync } from "node:fs";
import { rejected } from "./setback.ts";

export type Laid = { readonly size: number; readonly sha256: string };

// Not led on by a link, not blocked by a pipe.
const reading = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Bytes read at once; shared by all calls. */
const piece = Buffer.allocUnsafe(1 << 20);

function read(file: string, use = (_bytes: Buffer): void => {}): Laid {
  const descriptor = openSync(file, reading);
  try {
    if (!fstatSync(descriptor).isFile()) throw rejected(`${file} is no longer a file. Push again.`);
    const hash = createHash("sha256");
    let size = 0;
    for (let length = readSync(descriptor, piece); length > 0; length = readSync(descriptor, piece)) {
      const bytes = piece.subarray(0, length);
      hash.update(bytes);
      use(bytes);
      size += length;
    }
    return { size, sha256: hash.digest("hex") };
  } finally {
    closeSync(descriptor);
  }
}

/** undefined where there is no file of that name. */
export function hashOf(file: string): Laid | undefined {
  try {
    return read(file);
  } catch {
    return undefined;
  }
}

/** `former`: the published file of the same path, and the hash it was published with. */
export function lay(from: string, to: string, former?: { readonly file: string; readonly sha256: string }): Laid {
  if (former) {
    const built = read(from);
    // The manifest spares a look at what differs; what is the same is read.
    const same = built.sha256 === former.sha256 && hashOf(former.file)?.sha256 === built.sha256;
    if (same && linked(former.file, to)) return built;
  }
  const target = openSync(to, "wx", 0o444);
  try {
    return read(from, (bytes) => writeFileSync(target, bytes));
  } finally {
    closeSync(target);
  }
}

/** False on a file system without hard links, and where a file has as many as it may have. */
function linked(file: string, to: string): boolean {
  try {
    linkSync(file, to);
    return true;
  } catch (error) {
    if (["EMLINK", "ENOTSUP", "EPERM", "EXDEV"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}
