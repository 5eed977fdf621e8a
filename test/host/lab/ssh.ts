/**
 * The operator's OpenSSH inside the lab: a real ~/.ssh of their own with key, known_hosts and config, so that `ssh web1`
 * and `ssh root@web1.example.org` work for every program without an option, as they do on an operator's machine.
 */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
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
  writeFileSync(inFolder("known_hosts"), "", { mode: 0o600 });
  const everyHost = `Host *\n  BindAddress ${actors.operator.v4[0]}\n  IdentitiesOnly yes\n  IdentityFile ~/.ssh/id_ed25519\n`;
  writeFileSync(inFolder("config"), everyHost, { mode: 0o600 });
}

const keyIn = (folder: string) => join(folder, "ssh_host_ed25519_key");

/** A new host key: its files go into the host, its public half into known_hosts under the host's name. */
export async function hostKey(name: string, address: string, folder: string): Promise<void> {
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", `root@${name}`, "-f", keyIn(folder)]);
  meet(name, address, folder);
}

/** Lets the operator know the host at this address, which has its key already, by this name. */
export function meet(name: string, address: string, folder: string): void {
  const [type, key] = readFileSync(`${keyIn(folder)}.pub`, "utf8").split(" ");
  const known = readFileSync(inFolder("known_hosts"), "utf8").split("\n");
  const others = known.filter((line) => line !== "" && !line.startsWith(`${name} `));
  writeFileSync(inFolder("known_hosts"), `${[...others, `${name} ${type} ${key}`].join("\n")}\n`);
  const stanza = `Host ${name} ${name}.example.org\n  HostName ${address}\n  HostKeyAlias ${name}\n`;
  if (!readFileSync(inFolder("config"), "utf8").includes(stanza)) appendFileSync(inFolder("config"), stanza);
}
