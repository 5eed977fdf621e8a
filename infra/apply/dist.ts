/** Files that an apply sends from the operator's computer, so that no state holds their contents. */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { sha256 } from "./manifest.ts";

/** `file`: relative to infra/, as it is part of an input that must be equal on every computer. `sha256`: hex. */
export type Sent = { readonly file: string; readonly sha256: string; readonly bytes: number };

const folder = fileURLToPath(new URL("../../dist/", import.meta.url));
const known = new Map<string, Sent>();

/** Writes it under a name of its own. Each host gets the same files. */
export function sentFile(name: string, extension: string, contents: string | Uint8Array): Sent {
  const hash = sha256(contents);
  const file = `${name}-${hash.slice(0, 16)}.${extension}`;
  const written = known.get(file);
  if (written !== undefined) return written;
  mkdirSync(folder, { recursive: true });
  // A preview may run beside an up: the file is complete under its name, or missing.
  const scratch = `${folder}.${file}.${process.pid}`;
  writeFileSync(scratch, contents);
  renameSync(scratch, `${folder}${file}`);
  const sent = { file: `../dist/${file}`, sha256: hash, bytes: Buffer.byteLength(contents) };
  known.set(file, sent);
  return sent;
}
