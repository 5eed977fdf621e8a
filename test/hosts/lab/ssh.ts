/**
 * The operator's OpenSSH in the lab: a real ~/.ssh with key, known hosts and config, so that `ssh web1` and
 * `ssh root@web1.example.org` work for every program without options, as on an operator's computer.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { actors } from "./net.ts";
import { run } from "./process.ts";

export const sshFolder = (): string => join(userInfo().homedir, ".ssh");
const inFolder = (name: string) => join(sshFolder(), name);

/** The public key that every host authorizes for root, deploy and guest. */
export const operatorKey = (): string => readFileSync(inFolder("id_ed25519.pub"), "utf8");

export async function writeOperator(): Promise<void> {
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", inFolder("id_ed25519")]);
  mkdirSync(inFolder("hosts"), { mode: 0o700 });
  const everyHost = `Host *\n  BindAddress ${actors.operator.v4[0]}\n  IdentitiesOnly yes\n  IdentityFile ~/.ssh/id_ed25519\n`;
  // ssh looks for a relative name in $HOME/.ssh, but for its configuration in the account's own folder.
  writeFileSync(inFolder("config"), `Include ${inFolder("hosts/*.conf")}\n${everyHost}`, { mode: 0o600 });
}

const keyIn = (folder: string) => join(folder, "ssh_host_ed25519_key");
/** Type and key, as in known_hosts. */
const publicKey = (folder: string): string =>
  readFileSync(`${keyIn(folder)}.pub`, "utf8")
    .split(" ")
    .slice(0, 2)
    .join(" ");

/** Makes a host key: writes its files to `folder` on the host and its public half to the operator's known hosts. */
export async function hostKey(name: string, address: string, folder: string): Promise<void> {
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", `root@${name}`, "-f", keyIn(folder)]);
  meet(name, address, folder);
}

/** Adds a host that already has a key in `folder` to the operator's ssh config and known hosts. */
export const meet = (name: string, address: string, folder: string): void => know(name, address, publicKey(folder));

/**
 * Adds a name to the operator's ssh config, with the host key that ssh expects. Each name has its own files, renamed into
 * place: test files boot hosts at the same time, and two writers of one known_hosts would remove each other's lines.
 */
export function know(name: string, address: string, key: string): void {
  const file = (extension: string) => inFolder(`hosts/${name}.${extension}`);
  const put = (extension: string, text: string): void => {
    writeFileSync(file("new"), text, { mode: 0o600 });
    renameSync(file("new"), file(extension));
  };
  put("known", `${name} ${key}\n`);
  const known = `  HostKeyAlias ${name}\n  UserKnownHostsFile ${file("known")}\n`;
  put("conf", `Host ${name} ${name}.example.org\n  HostName ${address}\n${known}`);
}

/** The host key that the operator's ssh expects for a name. */
export const knownKey = (name: string): string =>
  readFileSync(inFolder(`hosts/${name}.known`), "utf8")
    .trim()
    .slice(`${name} `.length);
