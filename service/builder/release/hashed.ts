/** Reads files once, and copies them (decision 011). */
import { fstatSync, readSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tried } from "../../tried.ts";
import { reading, withFile } from "../files.ts";
import { rejected } from "../run/setback.ts";

const load = createRequire("/");
/** OpenSSL's module takes 8 ms to load: run.ts does that while git fetches, so that a push does not wait for it. */
export const crypto = (): typeof import("node:crypto") => load("node:crypto");

export type Hashed = { readonly size: number; readonly sha256: string };

const piece = Buffer.allocUnsafe(1 << 20);

/** The hash is of the bytes that were used, also where the file changes meanwhile. `admit` gets the size, before any is read. */
export function hashed(file: string, admit = (_size: number): void => {}, use = (_bytes: Buffer): void => {}): Hashed {
  return withFile(file, reading, (descriptor) => {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw rejected(`${file} is no longer a file. Push again.`);
    admit(stat.size);
    const hash = crypto().createHash("sha256");
    let size = 0;
    while (size < stat.size) {
      const bytes = piece.subarray(0, readSync(descriptor, piece));
      if (bytes.length === 0) break;
      hash.update(bytes);
      use(bytes);
      size += bytes.length;
    }
    return { size, sha256: hash.digest("hex") };
  });
}

export const hashOf = (file: string): Hashed | undefined => tried(() => hashed(file));

/** Copies what the gate has seen. Throws Setback where the file is another one now: a process of the build may still write. */
export function copy(from: string, to: string, seen: Hashed): void {
  const need = (isSeen: boolean): void => {
    if (!isSeen) throw rejected(`${from} was changed while the site was published. Push again.`);
  };
  const admit = (size: number) => need(size === seen.size);
  const write = (target: number) => hashed(from, admit, (bytes) => writeFileSync(target, bytes));
  need(withFile(to, "wx", write, 0o444).sha256 === seen.sha256);
}
