/** Puts a built file into a release: a link to the published file of the same bytes, else a copy (decision 011). */
import { fstatSync, linkSync, readSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tried } from "../../tried.ts";
import { reading, withFile } from "../files.ts";
import { rejected } from "../run/setback.ts";

const load = createRequire("/");
/** OpenSSL's module takes 8 ms to load: run.ts does that while git fetches, so that a push does not wait for it. */
export const crypto = (): typeof import("node:crypto") => load("node:crypto");

type Hashed = { readonly size: number; readonly sha256: string };

const piece = Buffer.allocUnsafe(1 << 20);

/** The hash is of the bytes that were used, also where the file changes meanwhile. */
function read(file: string, use = (_bytes: Buffer): void => {}): Hashed {
  return withFile(file, reading, (descriptor) => {
    if (!fstatSync(descriptor).isFile()) throw rejected(`${file} is no longer a file. Push again.`);
    const hash = crypto().createHash("sha256");
    let size = 0;
    for (let length = readSync(descriptor, piece); length > 0; length = readSync(descriptor, piece)) {
      const bytes = piece.subarray(0, length);
      hash.update(bytes);
      use(bytes);
      size += length;
    }
    return { size, sha256: hash.digest("hex") };
  });
}

export const hashOf = (file: string): Hashed | undefined => tried(() => read(file));

/** `former`: the published file of the same path, and the hash it was published with. */
export function linkOrCopy(from: string, to: string, former?: { readonly file: string; readonly sha256: string }) {
  if (former) {
    const built = read(from);
    // The published file is read only if the manifest has the built file's hash: it may have been changed on the disk.
    if (built.sha256 === former.sha256 && hashOf(former.file)?.sha256 === built.sha256)
      try {
        linkSync(former.file, to);
        return built;
      } catch {} // a file system without hard links, or a file with as many as it may have
  }
  return withFile(to, "wx", (target) => read(from, (bytes) => writeFileSync(target, bytes)), 0o444);
}
