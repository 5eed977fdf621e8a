/** The head a rollback turned away from: as long as the branch stands there, only a writer's ask builds. */
import { readFileSync } from "node:fs";
import { ifThere, remove, syncFolder, writeWhole } from "./files.ts";
import type { Places } from "./places.ts";

export function heldHead({ held }: Places): string | null {
  const text = ifThere(() => readFileSync(held, "utf8"))?.trim();
  return text && /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

export const hold = ({ held }: Places, head: string): void => writeWhole(held, `${head}\n`, 0o600);

export function letGo({ held, work }: Places): void {
  if (ifThere(() => readFileSync(held)) === undefined) return;
  remove(held);
  syncFolder(work);
}
