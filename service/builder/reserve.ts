/** Room kept aside for the moment when the disk is full, which is when somebody looks at what the builder says. */
import { randomBytes } from "node:crypto";
import { lstatSync, writeFileSync } from "node:fs";
import { ifThere, remove } from "./files.ts";
import type { Places } from "./places.ts";

/** Many times a lock and a status. */
const bytes = 64 << 10;

const isFull = (error: unknown): boolean => ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");

/** Writes something small; on a full disk once more, in place of the reserve. */
export function inReserve({ reserve }: Places, write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isFull(error) || !ifThere(() => lstatSync(reserve))) throw error;
    remove(reserve);
    write();
  }
}

/** Puts it back, once there is room again. */
export function keepReserve({ reserve }: Places): void {
  if (ifThere(() => lstatSync(reserve).size) === bytes) return;
  try {
    // Not zeros: of those a file system that compresses would keep none.
    writeFileSync(reserve, randomBytes(bytes));
  } catch (error) {
    remove(reserve);
    if (!isFull(error)) throw error;
  }
}
