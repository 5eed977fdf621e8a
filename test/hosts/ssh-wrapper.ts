/**
 * A wrapper of `ssh`, first on the PATH of `pulumi`, that runs the real OpenSSH. It counts calls, records each target's
 * answer, and can replay that answer without a connection.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./lab/process.ts";

/** Closes the shared connection, so that the next call opens a new one, as an operator's first call of the day does. */
export async function disconnect(alias: string): Promise<void> {
  await run("ssh", ["-o", "ControlPath=~/.ssh/pushgate-%C", "-O", "exit", `root@${alias}`], { check: false });
}

export type Mode =
  /** Run ssh. */
  | "pass"
  /** Run ssh, and record its answer, arguments and environment. */
  | "record"
  /** Print the target's last recorded answer, without a connection. */
  | "replay";

export type SshWrapper = {
  /** Pass this folder as WorldOptions.path. */
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
