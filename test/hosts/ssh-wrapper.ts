/**
 * A wrapper of `ssh`, first on the PATH of `pulumi`, that runs the real OpenSSH. It counts calls, and records their
 * arguments and environment.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./lab/process.ts";

/** Closes the shared connection, so that the next call opens a new one, as an operator's first call of the day does. */
export async function disconnect(alias: string): Promise<void> {
  await run("ssh", ["-o", "ControlPath=/tmp/pushgate-%i/%C", "-O", "exit", `root@${alias}`], { check: false });
}

export type SshWrapper = {
  /** Pass this folder as WorldOptions.path. */
  readonly folder: string;
  /** Targets called since the last `forget`, in order. */
  calls(): string[];
  /** Arguments and environment of these calls. */
  given(): string;
  forget(): void;
};

const script = (folder: string) => `#!/bin/sh
before=
for word; do
  [ "$before" != -- ] || { target=$word; break; }
  before=$word
done
echo "$target" >>'${folder}/calls'
{ tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>'${folder}/given'
exec /usr/bin/ssh "$@"
`;

export function sshWrapper(): SshWrapper {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  const at = (name: string) => join(folder, name);
  const read = (name: string) => (existsSync(at(name)) ? readFileSync(at(name), "utf8") : "");
  writeFileSync(at("ssh"), script(folder));
  chmodSync(at("ssh"), 0o755);
  return {
    folder,
    calls: () => read("calls").split("\n").filter(Boolean),
    given: () => read("given"),
    forget: () => {
      for (const name of ["calls", "given"]) writeFileSync(at(name), "");
    },
  };
}
