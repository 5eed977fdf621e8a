/**
 * The road to a machine: the operator's own OpenSSH, with its configuration, agent and known_hosts, and what its words
 * mean. Pure; who goes it is ship.ts, and in `ops` whatever a person asks for.
 */
import type { Host } from "../config/settings.ts";
import { printable } from "./report.ts";

/**
 * Part of every command's input, so equal on each machine and in each run: nothing of the operator's own may stand in
 * it. `~` and `%C` are for ssh to expand.
 */
const sshOptions = [
  "BatchMode=yes",
  "StrictHostKeyChecking=yes",
  "ConnectTimeout=15",
  "ServerAliveInterval=15",
  "ServerAliveCountMax=4",
  "ControlMaster=auto",
  "ControlPath=~/.ssh/pushgate-%C",
  "ControlPersist=60",
];

export const sshTo = ({ ssh }: Pick<Host, "ssh">): string[] => [
  "ssh",
  ...sshOptions.flatMap((option) => ["-o", option]),
  "--",
  ssh,
];

/** What ssh and sudo say, and what to do about it; the first that matches. */
const sshFaults: readonly (readonly [RegExp, string, string])[] = [
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No \w+ host key is known/i,
    "its host key is not the known one, or not known yet",
    "compare the key's fingerprint with the machine's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then connect once by hand: ssh",
  ],
  [
    /a password is required|a terminal is required|askpass/i,
    "sudo asks for a password there",
    "allow that login NOPASSWD: ALL in /etc/sudoers.d, or log in as root; check with: sudo -n true, after ssh",
  ],
  [
    /sudo: (command )?not found|not in the sudoers|may not run sudo/i,
    "sudo is not there or not allowed",
    "log in as root, or install sudo; check with: sudo -n true, after ssh",
  ],
  [
    /Permission denied/i,
    "the machine refuses the login",
    "load your key (ssh-add -l shows what is loaded) and see that it stands in authorized_keys of that login; check with: ssh",
  ],
  [
    /Could not resolve hostname/i,
    "the name does not resolve",
    "see `ssh` of this host in the stack's configuration, and ~/.ssh/config; check with: ssh",
  ],
  [
    /Connection refused|timed out|No route to host|Network is unreachable|Connection closed|Connection reset/i,
    "the machine can't be reached",
    "see that it runs and that SSH is open to you; if it is gone for good, set `state: lost` for it; check with: ssh",
  ],
  [/exit status 124/, "it did not answer within a minute", "see what keeps it busy; check with: ssh"],
];

export function unreachable({ name, ssh }: Pick<Host, "name" | "ssh">, said: string): string {
  const [, what, cure] = sshFaults.find(([pattern]) => pattern.test(said)) ?? [
    undefined,
    "asking it failed",
    "check with: ssh",
  ];
  const line = printable(said)
    .split("\n")
    .map((text) => text.trim())
    .filter((text) => text !== "" && !text.includes("exit status") && !text.includes("@@@"))
    .slice(-3)
    .join(" / ");
  return `${name}: ${what}, so nothing was looked at and nothing was changed. ${cure} ${ssh}\n  it said: ${line.slice(0, 500)}`;
}
