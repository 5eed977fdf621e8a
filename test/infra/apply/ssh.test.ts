/** The command that reaches a host, and the one message for a host that it does not reach. */
import { expect, test } from "vitest";
import { sshTo, unreachable } from "../../../infra/apply/ssh.ts";

const host = { name: "web1", ssh: "deploy@web1.example.org" };

test("the host comes after the options, and each option is the same for every operator and host", () => {
  expect(sshTo(host).join(" ")).toBe(
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 " +
      "-o ServerAliveCountMax=4 -o ControlMaster=auto -o ControlPath=~/.ssh/pushgate-%C -o ControlPersist=60 " +
      "-- deploy@web1.example.org",
  );
});

test.each([
  ["ssh: Could not resolve hostname web1: Name or service not known", "its name does not resolve", "Correct `ssh`"],
  ["Permission denied (publickey).", "the host rejects the login", "Load your key (ssh-add -l)"],
  ["Host key verification failed.", "its SSH host key is unknown or has changed", "Compare its fingerprint"],
  ["ssh: connect to host web1 port 22: Connection refused", "the host is unreachable", "Start it, and open SSH"],
  ["ssh: connect to host web1 port 22: Connection timed out", "the host is unreachable", "Start it, and open SSH"],
  ["sudo: a password is required", "sudo requires a password", "Allow that login NOPASSWD"],
  ["REMOTE HOST IDENTIFICATION HAS CHANGED", "its SSH host key is unknown or has changed", "Compare its fingerprint"],
  ["No ED25519 host key is known for web1", "its SSH host key is unknown or has changed", "Compare its fingerprint"],
  ["sudo: a terminal is required to read the password", "sudo requires a password", "Allow that login NOPASSWD"],
  ["sudo: no askpass program specified", "sudo requires a password", "Allow that login NOPASSWD"],
  ["sh: 1: exec: sudo: not found", "sudo is not installed or not allowed", "Log in as root, or install sudo."],
  ["bash: sudo: command not found", "sudo is not installed or not allowed", "Log in as root, or install sudo."],
  ["deploy is not in the sudoers file.", "sudo is not installed or not allowed", "Log in as root"],
  ["Sorry, user deploy may not run sudo on web1.", "sudo is not installed or not allowed", "Log in as root"],
  ["ssh: connect to host web1 port 22: No route to host", "the host is unreachable", "Start it, and open SSH"],
  ["ssh: connect to host web1: Network is unreachable", "the host is unreachable", "Start it, and open SSH"],
  ["Connection closed by 192.0.2.1 port 22", "the host is unreachable", "Start it, and open SSH"],
  ["Connection reset by peer", "the host is unreachable", "Start it, and open SSH"],
  ["something else", "the connection or the command failed", "Read what ssh printed."],
])("%s: %s", (printed, wrong, fix) => {
  const message = unreachable(host, printed);
  expect(message.startsWith(`web1: ${wrong}; nothing was changed. ${fix}`)).toBe(true);
  const begun = /unreachable|connection/.test(wrong);
  const effect = begun ? "the request may have arrived" : "nothing was changed";
  expect(unreachable(host, printed, "the request may have arrived")).toBe(
    message.replace("nothing was changed", effect),
  );
  const sudo = wrong.startsWith("sudo") ? " sudo -n true" : "";
  expect(message).toContain(` Check with: ssh deploy@web1.example.org${sudo}\n  ssh printed: ${printed}`);
});

test("of what ssh printed the last three lines are quoted, without frames, blanks and the engine's own line", () => {
  const printed =
    'error: exit status 255: running "x"\n@@@@@@@\n  one \n\n\t two\n@  WARNING @@@\nthree\u001b[2J\n four  \n';
  expect(unreachable(host, printed).split("\n").at(-1)).toBe("  ssh printed: two / three?[2J / four");
  expect(unreachable(host, "x".repeat(600)).split("\n").at(-1)).toBe(`  ssh printed: ${"x".repeat(500)}`);
});
