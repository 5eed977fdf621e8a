/**
 * An `ssh` that stands first on the PATH of `pulumi` and hands over to OpenSSH's: it counts, keeps what each target
 * answered, and can give that answer again in place of the machine.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./lab/process.ts";

/** The next call pays for a connection of its own, as an operator's first of the day does. */
export async function disconnect(machine: string): Promise<void> {
  await run("ssh", ["-o", "ControlPath=~/.ssh/pushgate-%C", "-O", "exit", `root@${machine}`], { check: false });
}

export type Mode =
  /** Hand over, nothing else. */
  | "pass"
  /** Hand over, and keep the answer and what the process was given. */
  | "record"
  /** The target's last recorded answer; no machine is asked. */
  | "replay";

export type SshWrapper = {
  /** For WorldOptions.path. */
  readonly folder: string;
  mode(mode: Mode): void;
  /** Targets called since the last `forget`, in order. */
  calls(): string[];
  /** Arguments and environment of the calls that were recorded. */
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
read -r mode <'${folder}/mode'
case $mode in
  replay) cat >/dev/null; exec cat '${folder}/answer-'"$target" ;;
  record)
    { tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>'${folder}/given'
    /usr/bin/ssh "$@" >'${folder}/answer-'"$target.$$"
    code=$?
    cat '${folder}/answer-'"$target.$$"
    mv '${folder}/answer-'"$target.$$" '${folder}/answer-'"$target"
    exit "$code" ;;
esac
exec /usr/bin/ssh "$@"
`;

export function sshWrapper(): SshWrapper {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  const at = (name: string) => join(folder, name);
  const read = (name: string) => (existsSync(at(name)) ? readFileSync(at(name), "utf8") : "");
  writeFileSync(at("ssh"), script(folder));
  chmodSync(at("ssh"), 0o755);
  const mode = (wanted: Mode) => writeFileSync(at("mode"), `${wanted}\n`);
  mode("pass");
  return {
    folder,
    mode,
    calls: () => read("calls").split("\n").filter(Boolean),
    given: () => read("given"),
    forget: () => {
      for (const name of ["calls", "given"]) writeFileSync(at(name), "");
    },
  };
}
