/** Kills the engine during a run, and does what docs/operating.md says to do then. */
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../hosts/lab/process.ts";
import type { Workspace } from "./engine.ts";

/** With SIGKILL; its plugins and their children go on. Resolves to whether an `up` was running. */
export async function killEngine({ folder }: Workspace): Promise<boolean> {
  return (await run("pkill", ["-KILL", "-f", `/pulumi up .*${folder}/`], { check: false })).code === 0;
}

/** The engine's of the state, which a kill may leave empty: the engine then reads neither state nor lock. */
export function removeEmptyChecksum({ folder }: Workspace): void {
  const checksum = join(folder, "state/.pulumi/stacks/pushgate/test.json.attrs");
  if (statSync(checksum, { throwIfNoEntry: false })?.size === 0) rmSync(checksum);
}

export async function unlock(stack: Workspace): Promise<void> {
  removeEmptyChecksum(stack);
  const { code, stderr } = await stack.pulumi("cancel", "--yes", "--stack", "test");
  if (code !== 0) throw new Error(`pulumi cancel: ${stderr}`);
}

/** What the engine prints while another `up` of the stack runs, or after it was killed. */
export const locked = /error: the stack is currently locked by 1 lock\(s\)\. .* `pulumi cancel`/;
