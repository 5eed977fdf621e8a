/** A wrapper of `ssh`, first on the PATH of `pulumi`, that runs the real OpenSSH and records its arguments and environment. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Pass `folder` as WorldOptions.path. */
export function sshWrapper(): { readonly folder: string; readonly given: () => string } {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  const given = join(folder, "given");
  const script = `#!/bin/sh
{ tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>'${given}'
exec /usr/bin/ssh "$@"
`;
  writeFileSync(join(folder, "ssh"), script, { mode: 0o755 });
  return { folder, given: () => readFileSync(given, "utf8") };
}
