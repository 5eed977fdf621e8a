/** The command that reaches a host: the operator's own OpenSSH with its configuration, agent and known_hosts. Pure. */
import { printableLines } from "../../service/printable.ts";
import type { Host } from "../config/settings.ts";

/** Part of every command's input: no option may differ between operators. ssh expands `~` and `%C`. */
const sshOptions = [
  ...["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=15", "ServerAliveInterval=15"],
  ...["ServerAliveCountMax=4", "ControlMaster=auto", "ControlPath=~/.ssh/pushgate-%C", "ControlPersist=60"],
];

const sshCommand = ["ssh", ...sshOptions.flatMap((option) => ["-o", option]), "--"];
export const sshTo = ({ ssh }: Pick<Host, "ssh">): string[] => [...sshCommand, ssh];

/** The first that matches counts. `begun`: the script may have run before. `test`: shows the same fault on the host. */
const sshFaults: readonly [reported: RegExp, wrong: string, fix: string, more?: { begun?: true; test?: string }][] = [
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No \w+ host key is known/i,
    "its SSH host key is unknown or has changed",
    "Compare its fingerprint on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then connect once by hand.",
  ],
  [
    /a password is required|a terminal is required|askpass/i,
    "sudo requires a password",
    "Allow that login NOPASSWD: ALL in /etc/sudoers.d, or log in as root.",
    { test: "sudo -n true" },
  ],
  [
    /sudo: (command )?not found|not in the sudoers|may not run sudo/i,
    "sudo is not installed or not allowed",
    "Log in as root, or install sudo.",
    { test: "sudo -n true" },
  ],
  [/Permission denied/i, "the host rejects the login", "Load your key (ssh-add -l), and allow it in authorized_keys."],
  [/Could not resolve hostname/i, "its name does not resolve", "Correct `ssh` of this host, or ~/.ssh/config."],
  [
    /Connection refused|timed out|No route to host|Network is unreachable|Connection closed|Connection reset/i,
    "the host is unreachable",
    "Start it, and open SSH to your address. If it is gone for good, set `state: lost` for it.",
    { begun: true },
  ],
  [/exit status 124/, "the host did not answer in time", "Find out what keeps it busy.", { begun: true }],
  [/^/, "the connection or the command failed", "Read what ssh printed.", { begun: true }],
];

/** What is wrong, what to do, and the last lines that ssh printed. `effect`: what a script that had begun may have done. */
export function unreachable(
  { name, ssh }: Pick<Host, "name" | "ssh">,
  reported: string,
  effect = "nothing was changed",
): string {
  const [, wrong, fix, { begun, test } = {}] = sshFaults.find(([pattern]) => pattern.test(reported))!;
  const lines = printableLines(reported)
    .split("\n")
    .map((text) => text.trim())
    .filter((text) => text !== "" && !text.includes("exit status") && !text.includes("@@@"));
  const check = `Check with: ssh ${ssh}${test === undefined ? "" : ` ${test}`}`;
  return `${name}: ${wrong}; ${begun ? effect : "nothing was changed"}. ${fix} ${check}\n  ssh printed: ${lines.slice(-3).join(" / ").slice(0, 500)}`;
}
