/** The real sshd and ssh-agent, with keys, on a host whose owner has configured ssh for other programs. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach } from "vitest";
import type { Builder } from "../../../../service/builder/settings.ts";
import { Repository } from "../../../fakes/git-repository.ts";
import { freePort } from "../../receiver-process.ts";
import { cannotBuild } from "../harness.ts";
import { type HostileHost, hostileHost, noHostileHost } from "../hostile-host.ts";
import { type Changes, gitWith } from "./git-lines.ts";

const sshd = "/usr/sbin/sshd";
const noServer = existsSync(sshd) ? undefined : "sshd not installed: apt-get install openssh-server";

let folder: string;
export let hostile: HostileHost;
export let server: { readonly port: number; readonly log: () => string; readonly processes: readonly ChildProcess[] };
export const at = (name: string) => join(folder, name);

/** Names that a shell and ssh would take apart without quotes. */
export const pinned = "it's pinned";
const theAgent = "an agent";

/** An account's key, which is also a key of the git host; the deploy key, which is in the agent; keys of hosts. */
const keys = ["account", "deploy", "host", "impostor"] as const;
export const publicKey = (name: (typeof keys)[number]) =>
  readFileSync(at(`${name}.pub`), "utf8")
    .split(" ")
    .slice(0, 2)
    .join(" ");

/** Makes it once for all tests of a file; each begins with the host key pinned. */
export function onSshHost(): void {
  let isMade = false;
  beforeEach(async ({ skip }) => {
    for (const reason of [cannotBuild, noHostileHost, noServer]) skip(reason !== undefined, reason);
    if (isMade) return pin("host");
    isMade = true;
    folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
    hostile = hostileHost(folder);
    for (const name of keys) execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", at(name)]);
    new Repository(at("site.git")).push({ "index.html": "" });
    server = await startServer();
    for (const [name, file] of [
      ["system", "etc/ssh/ssh_config"],
      ["user", "home/.ssh/config"],
    ] as const)
      hostile.write(file, `Match exec "${hostile.mark(`configuration-of-${name}`)}; false"\n`, 0o600);
    for (const file of ["etc/ssh/ssh_known_hosts", "home/.ssh/known_hosts"]) hostile.write(file, knownHost("impostor"));
    copyFileSync(at("account"), hostile.at("home/.ssh/id_ed25519"));
    pin("host");
  });
  afterAll(() => {
    for (const child of server?.processes ?? []) child.kill();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });
}

export const knownHost = (name: "host" | "impostor") => `[127.0.0.1]:${server.port} ${publicKey(name)}\n`;
/** The host keys that the configuration pins. */
export const pin = (name: "host" | "impostor") => writeFileSync(at(pinned), knownHost(name));

async function startServer() {
  const port = await freePort();
  // What sshd needs as root.
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true });
  const uploads = `restrict,command="git upload-pack ${at("site.git")}"`;
  writeFileSync(at("authorized_keys"), `${uploads} ${publicKey("deploy")}\n${uploads} ${publicKey("account")}\n`);
  writeFileSync(at("banner"), "fatal: the words of the git host\n");
  writeFileSync(
    at("sshd_config"),
    `ListenAddress 127.0.0.1:${port}
HostKey ${at("host")}
AuthorizedKeysFile ${at("authorized_keys")}
Banner ${at("banner")}
PermitRootLogin yes
PasswordAuthentication yes
StrictModes no
UsePAM no
PidFile none
LogLevel VERBOSE
`,
  );
  const daemon = spawn(sshd, ["-D", "-e", "-f", at("sshd_config")], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  daemon.stderr.setEncoding("utf8").on("data", (text) => {
    log += text;
  });
  const agent = spawn("ssh-agent", ["-D", "-a", at(theAgent)], { stdio: "ignore" });
  for (let i = 0; !(log.includes("listening") && existsSync(at(theAgent))); i += 1) {
    if (i > 500) throw new Error(`sshd or ssh-agent does not start: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  execFileSync("ssh-add", ["-q", at("deploy")], { env: { ...process.env, SSH_AUTH_SOCK: at(theAgent) } });
  return { port, log: () => log, processes: [daemon, agent] };
}

export const builder = (agent = theAgent, port = server.port): Builder =>
  ({
    path: hostile.path,
    settings: {
      site: folder,
      repository: `ssh://${userInfo().username}@127.0.0.1:${port}/site.git`,
      agent: at(agent),
      knownHosts: at(pinned),
    },
  }) as unknown as Builder;

/** Requests the git host's branches. Returns "" or the error. */
export async function look(changes: Changes = {}, of = builder(), seconds = 20): Promise<string> {
  const { code, late, stderr } = await gitWith(of, changes, seconds)(["ls-remote", of.settings.repository], folder);
  return code === 0 ? "" : late ? "late" : stderr;
}
