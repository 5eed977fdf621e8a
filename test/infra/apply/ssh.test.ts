/** The command that reaches a host, and the one message for a host that it does not reach. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { sshLine, sshTo, unreachable } from "../../../infra/apply/ssh.ts";
import { sshFault } from "../../../infra/config/forms.ts";
import { missing, Root } from "../host/namespace.ts";

const host = { name: "web1", ssh: "deploy@web1.example.org" };

/** `$s`: the folder of ssh's socket; `$up`: the one above it. */
test.each([
  ["is missing", ":", true],
  ["is missing, under umask 777", "umask 777", true],
  ["is there", "mkdir -m 700 $s", true],
  ["is open to others", "mkdir -m 711 $s", false],
  ["is a link", "mkdir -m 700 $s.x; ln -s $s.x $s", false],
  ["is a file", "touch $s; chmod 700 $s", false],
  ["is another account's", "mkdir -m 700 $s; chown 1 $s || rmdir $s; touch $s", false],
  ["cannot be made", "rmdir $up", false],
])("ssh multiplexes in a folder that only this account enters: one that %s", (_, setUp, multiplexes) => {
  const root = new Root();
  const up = root.folder;
  const [shell, option, text, ...rest] = sshTo(host);
  const path = `${up}/pushgate-${process.getuid?.()}`;
  const run = `up=${up} s=${path}; ${setUp}; ssh() { echo "$@"; }; ${text!.replace("/tmp/", `${up}/`).replace("exec ", "")}`;
  const { stdout } = spawnSync(shell!, [option!, run, ...rest, "a command"], { encoding: "utf8" });
  expect(stdout).toBe(
    "-akxT -o PermitLocalCommand=no -o ClearAllForwardings=yes -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 " +
      `-o ControlMaster=auto -o ControlPath=${multiplexes ? `${path}/%C` : "none"} -o ControlPersist=60 ` +
      "-- deploy@web1.example.org a command\n",
  );
});

test("a host gets nothing of this computer, whatever ~/.ssh/config says, and would without the options", ({ skip }) => {
  skip(missing("ssh") !== undefined, missing("ssh"));
  const root = new Root();
  const forwards = ["LocalForward 8 a:1", "RemoteForward 9 b:1", "DynamicForward 7", "Tunnel yes", "RequestTTY force"];
  const more = ["ForwardAgent yes", "ForwardX11 yes", "GSSAPIDelegateCredentials yes", "PermitLocalCommand yes"];
  const config = root.write("config", [...forwards, ...more, "LocalCommand id"].join("\n"));
  const leaks =
    /^(?:forwardagent|forwardx11|gssapidelegatecredentials|permitlocalcommand) yes$|^\w+forward .*|^requesttty force$/gm;
  const [, , text = "", ...rest] = sshTo(host);
  const found = [text, text.replace(/-akxT.*?Forwardings=yes/, "")].map((script) => {
    const run = script.replace("exec ssh", `exec ssh -G -F ${config}`);
    return spawnSync("sh", ["-c", run, ...rest], { encoding: "utf8" }).stdout.match(leaks)?.length ?? 0;
  });
  expect(found).toEqual([0, 8]);
});

test.each([
  ["web1", "web1", ["web1", "22"]],
  ["root@2001:db8::1", "root@2001:db8::1", ["root", "2001:db8::1", "22"]],
  ["root@fe80::1%eth0", "root@fe80::1%eth0", ["root", "fe80::1%eth0", "22"]],
  ["ssh://root@web1:2222", "-p 2222 root@web1", ["root", "web1", "2222"]],
  ["ssh://ops@alice@web1:2222", "-p 2222 ops@alice@web1", ["ops@alice", "web1", "2222"]],
  ["ssh://root@[2001:db8::1]", "root@2001:db8::1", ["root", "2001:db8::1", "22"]],
  ["ssh://[fe80::1%eth0]:22", "-p 22 fe80::1%eth0", ["fe80::1%eth0", "22"]],
])("OpenSSH connects for %s as for ssh %s", (ssh, words, parts) => {
  expect([sshFault(ssh), sshLine({ ssh })]).toEqual([undefined, `ssh ${words}`]);
  const { error, stdout } = spawnSync("ssh", ["-G", "-F", "none", ...sshTo({ ssh }).slice(4)], { encoding: "utf8" });
  const read = (name: string) => new RegExp(`^${name} (.*)$`, "m").exec(stdout)?.[1];
  if (!error) expect(["user", "hostname", "port"].slice(-parts.length).map(read)).toEqual(parts);
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
  ["env: »sudo«: Datei oder Verzeichnis nicht gefunden", "sudo is not installed or not allowed", "Log in as root"],
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
  const [none, effect] = ["nothing was changed", "the request may have arrived"];
  const begun = /unreachable|connection/.test(wrong);
  expect(unreachable(host, printed, effect)).toBe(message.replace(none, begun ? effect : none));
  const sudo = wrong.startsWith("sudo") ? " sudo -n true" : "";
  expect(message).toContain(` Check with: ssh deploy@web1.example.org${sudo}\n  ssh printed: ${printed}`);
});

test("of what ssh printed the last three lines are quoted, without frames, blanks and the engine's own line", () => {
  const printed =
    'error: exit status 255: running "x"\n@@@@@@@\n  one \n\n\t two\n@  WARNING @@@\nthree\u001b[2J\n four  \n';
  expect(unreachable(host, printed).split("\n").at(-1)).toBe("  ssh printed: two / three?[2J / four");
  expect(unreachable(host, "x".repeat(600)).split("\n").at(-1)).toBe(`  ssh printed: ${"x".repeat(500)}`);
});
