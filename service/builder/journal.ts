/** One JSON line a run on standard output, for `journalctl -o cat -u pushgate-build-<hook>`. */
import type { Failing, Last } from "./status.ts";

export type Entry = { readonly hook: string } & Last & { readonly release: string | null; readonly failing?: Failing };

export type Journal = (entry: Entry) => void;

export const standardOutput: Journal = (entry) => {
  process.stdout.write(`${JSON.stringify(entry)}\n`);
};
