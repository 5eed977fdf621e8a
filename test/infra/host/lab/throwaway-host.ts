/**
 * A host for one script: this computer's programs, with empty folders where pushgate writes, in namespaces that end
 * with the script. The script reaches no systemd, so it can start no unit.
 */
import { spawnSync } from "node:child_process";

const namespaces = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc"];

/** Why this computer cannot run such a host, or undefined. */
export const noHost =
  spawnSync("unshare", [...namespaces, "mount", "-t", "tmpfs", "none", "/etc"]).status === 0
    ? undefined
    : "user and mount namespaces are not allowed here: run as root";

/** The path of this Node in the host: the empty folders hide a checkout below /tmp or /root. */
export const hostNode = "/mnt/node";

const prepare = `
mount -t tmpfs none /mnt && touch ${hostNode} && mount --bind '${process.execPath}' ${hostNode}
for folder in /etc /home /srv /var/lib /var/spool /var/www /usr/local/lib /run /tmp /root; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
echo root:x:0:0::/root:/bin/sh >/etc/passwd
echo root:x:0: >/etc/group
mkdir -p /var/lib/pushgate/stamps /var/lib/systemd
`;

type Ran = { readonly status: number | null; readonly stdout: string; readonly stderr: string };

/** Runs `script` by `sh -s`, as the transient unit does: from standard input, so that it is in no argv. */
export function onHost(script: string): Ran {
  const { status, stdout, stderr } = spawnSync("unshare", [...namespaces, "sh", "-s"], {
    input: `${prepare}\n${script}`,
    encoding: "utf8",
    timeout: 90_000,
  });
  return { status, stdout, stderr };
}
