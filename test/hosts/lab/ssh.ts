/**
 * The operator's OpenSSH inside the lab: a real ~/.ssh of their own with key, known hosts and config, so that `ssh web1`
 * and `ssh root@web1.example.org` work for every program without an option, as they do on an operator's machine.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { actors } from "./net.ts";
import { run } from "./process.ts";

export const sshFolder = (): string => join(userInfo().homedir, ".ssh");
const inFolder = (name: string) => join(sshFolder(), name);

/** Authorized on every host for root, deploy and guest. */
export const operatorKey = (): string => readFileSync(inFolder("id_ed25519.pub"), "utf8");

export async function writeOperator(): Promise<void> {
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", inFolder("id_ed25519")]);
  mkdirSync(inFolder("hosts"), { mode: 0o700 });
  const everyHost = `Host *\n  BindAddress ${actors.operator.v4[0]}\n  IdentitiesOnly yes\n  IdentityFile ~/.ssh/id_ed25519\n`;
  writeFileSync(inFolder("config"), `Include hosts/*.conf\n${everyHost}`, { mode: 0o600 });
}

const keyIn = (folder: string) => join(folder, "ssh_host_ed25519_key");
/** As known_hosts has it: type and key. */
const publicKey = (folder: string): string =>
  readFileSync(`${keyIn(folder)}.pub`, "utf8")
    .split(" ")
    .slice(0, 2)
    .join(" ");

/** A new host key: its files go into the host, its public half to what the operator knows of it. */
export async function hostKey(name: string, address: string, folder: string): Promise<void> {
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", `root@${name}`, "-f", keyIn(folder)]);
  meet(name, address, folder);
}

/** Lets the operator know the host at this address, which has its key already in `folder`, by this name. */
export const meet = (name: string, address: string, folder: string): void => know(name, address, publicKey(folder));

/**
 * A name of ssh's, and the host key that is expected behind it; without one it is a host the operator never met. Files
 * of its own, renamed into place: files of the suite boot hosts at once, and of two that rewrite one known_hosts the
 * second takes the first's host out of it again.
 */
export function know(name: string, address: string, key?: string): void {
  const file = (extension: string) => inFolder(`hosts/${name}.${extension}`);
  const put = (extension: string, text: string): void => {
    writeFileSync(file("new"), text, { mode: 0o600 });
    renameSync(file("new"), file(extension));
  };
  if (key !== undefined) put("known", `${name} ${key}\n`);
  const known = `  HostKeyAlias ${name}\n  UserKnownHostsFile ${file("known")}\n`;
  put("conf", `Host ${name} ${name}.example.org\n  HostName ${address}\n${known}`);
}

/** The host key that the operator expects behind a name. */
export const knownKey = (name: string): string =>
  readFileSync(inFolder(`hosts/${name}.known`), "utf8")
    .trim()
    .slice(`${name} `.length);
