/** Files that an apply sends from the operator's computer, so that no state holds their contents. */
import { mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { sha256 } from "./manifest.ts";

/** `file`: relative to infra/, as it is part of an input that must be equal on every computer. `sha256`: hex. */
export type Sent = { readonly file: string; readonly sha256: string; readonly bytes: number };

const folder = fileURLToPath(new URL("../../dist/", import.meta.url));

/** Writes it under a name of its own, unless it is there. Each host gets the same files. */
export function sentFile(name: string, extension: string, contents: string | Uint8Array): Sent {
  const [hash, bytes] = [sha256(contents), Buffer.byteLength(contents)];
  const file = `${name}-${hash.slice(0, 16)}.${extension}`;
  // After a power cut it may be empty.
  if (statSync(folder + file, { throwIfNoEntry: false })?.size !== bytes) {
    mkdirSync(folder, { recursive: true });
    // A preview may run beside an up: the file is complete under its name, or missing.
    const scratch = `${folder}.${file}.${process.pid}`;
    writeFileSync(scratch, contents);
    renameSync(scratch, folder + file);
  }
  return { file: `../dist/${file}`, sha256: hash, bytes };
}
