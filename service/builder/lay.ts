/**
 * One file of a build into a release: linked from the published release where the bytes are the same, else copied. What
 * is hashed is what was written or compared, so the hash is right also of a file that changes meanwhile.
 */
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, linkSync, openSync, readSync, writeSync } from "node:fs";
import { refused } from "./setback.ts";

export type Laid = { readonly size: number; readonly sha256: string };

/** Bytes read at once; a file up to this long is read once. */
const piece = 1 << 20;

// Shared by all: the next call overwrites them.
const ours = Buffer.allocUnsafe(piece);
const theirs = Buffer.allocUnsafe(piece);

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** `former`: the file of the same path that was published, and what it should hold. */
export function lay(from: string, to: string, former?: { readonly file: string } & Laid): Laid {
  return reading(from, (source, size) => {
    if (size >= piece) {
      const sha256 = former?.size === size ? hashIfSame(source, former.file) : undefined;
      if (former && sha256 !== undefined && linked(former.file, to)) return { size, sha256 };
      return copy(source, to);
    }
    const bytes = ours.subarray(0, fill(source, ours, 0));
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    // The manifest spares the look at a file that is different; that it is the same is not left to the manifest.
    if (former?.sha256 !== sha256 || !holds(former.file, bytes) || !linked(former.file, to)) create(to, bytes);
    return { size: bytes.length, sha256 };
  });
}

/** Of a file as it lies there; undefined where there is none, or no file. */
export function hashOf(file: string): Laid | undefined {
  try {
    return reading(file, (source) => {
      const hash = createHash("sha256");
      let size = 0;
      for (let length = fill(source, ours, 0); length > 0; length = fill(source, ours, size)) {
        hash.update(ours.subarray(0, length));
        size += length;
      }
      return { size, sha256: hash.digest("hex") };
    });
  } catch {
    return undefined;
  }
}

function reading<T>(file: string, use: (descriptor: number, size: number) => T): T {
  // Not blocked by a pipe, not led on by a link.
  const descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw refused(`${file} is no file any more`);
    return use(descriptor, stat.size);
  } finally {
    closeSync(descriptor);
  }
}

/** Reads until the buffer is full or the file ends; returns how many bytes. */
function fill(descriptor: number, buffer: Buffer, position: number): number {
  let length = 0;
  while (length < buffer.length) {
    const read = readSync(descriptor, buffer, length, buffer.length - length, position + length);
    if (read === 0) break;
    length += read;
    // Most files are small, and were read whole.
    if (read < piece && position === 0 && length < buffer.length && atEnd(descriptor, length)) break;
  }
  return length;
}

const atEnd = (descriptor: number, length: number): boolean => fstatSync(descriptor).size === length;

function holds(file: string, bytes: Buffer): boolean {
  try {
    return reading(file, (descriptor, size) => {
      if (size !== bytes.length) return false;
      const length = fill(descriptor, theirs, 0);
      return length === bytes.length && theirs.subarray(0, length).equals(bytes);
    });
  } catch {
    return false;
  }
}

function hashIfSame(source: number, file: string): string | undefined {
  try {
    return reading(file, (other) => {
      const hash = createHash("sha256");
      for (let at = 0; ; ) {
        const length = fill(source, ours, at);
        if (fill(other, theirs, at) !== length) return undefined;
        if (length === 0) return hash.digest("hex");
        const bytes = ours.subarray(0, length);
        if (!theirs.subarray(0, length).equals(bytes)) return undefined;
        hash.update(bytes);
        at += length;
      }
    });
  } catch {
    return undefined;
  }
}

/** False on a file system without hard links, and where a file has all it may have: then it is copied. */
function linked(file: string, to: string): boolean {
  try {
    linkSync(file, to);
    return true;
  } catch (error) {
    if (["EMLINK", "ENOTSUP", "EPERM", "EXDEV"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}

function create(to: string, bytes: Buffer): void {
  const target = openSync(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o444);
  try {
    write(target, bytes);
  } finally {
    closeSync(target);
  }
}

function copy(source: number, to: string): Laid {
  const target = openSync(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o444);
  const hash = createHash("sha256");
  let size = 0;
  try {
    for (let length = fill(source, ours, 0); length > 0; length = fill(source, ours, size)) {
      const bytes = ours.subarray(0, length);
      write(target, bytes);
      hash.update(bytes);
      size += length;
    }
  } finally {
    closeSync(target);
  }
  return { size, sha256: hash.digest("hex") };
}

function write(target: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(target, bytes, written);
}
