/** The command that reaches a host: the operator's own OpenSSH with its configuration, agent and known_hosts. Pure. */
import { printableLines } from "../../service/printable.ts";
import { sshTarget } from "../config/forms.ts";
import type { Host } from "../config/settings.ts";
import { scriptBeside } from "./shell.ts";

/** The words after `ssh`. */
export const destination = ({ ssh }: Pick<Host, "ssh">): string[] => {
  const { user, host, port } = sshTarget(ssh);
  return [...(port === undefined ? [] : ["-p", port]), "--", user + host];
};

/** Part of every command's input, so equal for every operator and host but for the target. */
export const sshTo = (host: Pick<Host, "ssh">): string[] => [
  ...["sh", "-c", scriptBeside(import.meta.url, "ssh.sh"), "ssh"],
  ...destination(host),
];

export const sshLine = (host: Pick<Host, "ssh">): string =>
  ["ssh", ...destination(host)].filter((word) => word !== "--").join(" ");

/** The first that matches counts. `begun`: the script may have run before. `test`: shows the same fault on the host. */
const sshFaults: readonly [
  reported: RegExp,
  wrong: string,
  fix: string,
  more?: { begun?: true; test?: string; isDown?: true },
][] = [
  [/exec: ssh: /, "ssh is not on PATH", "Install the OpenSSH client."],
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
    /env: .*sudo|not in the sudoers|may not run sudo/i,
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
    { begun: true, isDown: true },
  ],
  [/exit status 124/, "the host did not answer in time", "Find out what keeps it busy.", { begun: true }],
  [/^/, "the connection or the command failed", "Read what ssh printed.", { begun: true }],
];

const faultIn = (reported: string) => sshFaults.find(([pattern]) => pattern.test(reported))!;

/** No connection came about, in contrast to a host that answers and has a fault. */
export const isDown = (reported: string): boolean => faultIn(reported)[3]?.isDown === true;

/** What is wrong, what to do, and the last lines that ssh printed. `effect`: what a script that had begun may have done. */
export function unreachable(host: Pick<Host, "name" | "ssh">, reported: string, effect = "nothing was changed") {
  const [, wrong, fix, { begun, test } = {}] = faultIn(reported);
  const lines = printableLines(reported)
    .split("\n")
    .map((text) => text.trim())
    .filter((text) => text !== "" && !text.includes("exit status") && !text.includes("@@@"));
  const check = `Check with: ${sshLine(host)}${test === undefined ? "" : ` ${test}`}`;
  return `${host.name}: ${wrong}; ${begun ? effect : "nothing was changed"}. ${fix} ${check}\n  ssh printed: ${lines.slice(-3).join(" / ").slice(0, 500)}`;
}
