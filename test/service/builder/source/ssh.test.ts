/**
 * The ssh of a fetch on a host whose owner has configured ssh for other programs, and against a hostile server: each
 * option of git.ts has an attack here that gets further without it.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { Builder } from "../../../../service/builder/settings.ts";

import { Repository } from "../../../fakes/git-repository.ts";
import { cannotBuild } from "../harness.ts";
import { type HostileHost, hostileHost, noHostileHost } from "../hostile-host.ts";
import { type Changes, gitWith } from "./git-lines.ts";

const sshd = "/usr/sbin/sshd";
const noServer = existsSync(sshd) ? undefined : "sshd not installed: apt-get install openssh-server";

let folder: string;
let hostile: HostileHost;
let server: { readonly port: number; readonly log: () => string; readonly processes: readonly ChildProcess[] };
const at = (name: string) => join(folder, name);

/** An account's key, which is also a key of the git host; the deploy key, which is in the agent; keys of hosts. */
const keys = ["account", "deploy", "host", "impostor"] as const;
const publicKey = (name: (typeof keys)[number]) =>
  readFileSync(at(`${name}.pub`), "utf8")
    .split(" ")
    .slice(0, 2)
    .join(" ");

beforeEach(async ({ skip }) => {
  for (const reason of [cannotBuild, noHostileHost, noServer]) skip(reason !== undefined, reason);
  if (folder) return pin("host");
  folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  hostile = hostileHost(folder);
  for (const name of keys) execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", at(name)]);
  new Repository(at("site.git")).push({ "index.html": "" });
  server = await startServer();
  for (const name of ["system", "user"])
    hostile.write(
      name === "system" ? "etc/ssh/ssh_config" : "home/.ssh/config",
      `Match exec "${hostile.mark(`configuration-of-${name}`)}; false"\n`,
      0o600,
    );
  for (const file of ["etc/ssh/ssh_known_hosts", "home/.ssh/known_hosts"]) hostile.write(file, knownHost("impostor"));
  copyFileSync(at("account"), hostile.at("home/.ssh/id_ed25519"));
  pin("host");
});
afterAll(() => {
  for (const child of server?.processes ?? []) child.kill();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const knownHost = (name: "host" | "impostor") => `[127.0.0.1]:${server.port} ${publicKey(name)}\n`;
/** The host keys that the configuration pins. */
const pin = (name: "host" | "impostor") => writeFileSync(at("pinned"), knownHost(name));

async function startServer() {
  const port = await new Promise<number>((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
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
  const agent = spawn("ssh-agent", ["-D", "-a", at("agent")], { stdio: "ignore" });
  for (let i = 0; !(log.includes("listening") && existsSync(at("agent"))); i += 1) {
    if (i > 500) throw new Error(`sshd or ssh-agent does not start: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  execFileSync("ssh-add", ["-q", at("deploy")], { env: { ...process.env, SSH_AUTH_SOCK: at("agent") } });
  return { port, log: () => log, processes: [daemon, agent] };
}

const builder = (agent = "agent", port = server.port): Builder =>
  ({
    path: hostile.path,
    settings: {
      site: folder,
      repository: `ssh://${userInfo().username}@127.0.0.1:${port}/site.git`,
      agent: at(agent),
      knownHosts: at("pinned"),
    },
  }) as unknown as Builder;

/** Requests the git host's branches. Returns "" or the error. */
async function look(changes: Changes = {}, of = builder(), seconds = 20): Promise<string> {
  const { code, late, stderr } = await gitWith(of, changes, seconds)(["ls-remote", of.settings.repository], folder);
  return code === 0 ? "" : late ? "late" : stderr;
}

describe("the host's configuration", () => {
  test("the deploy key of the agent and the pinned host key open the repository", async () => {
    expect(await look()).toBe("");
    expect(await look({}, builder("no agent"))).toMatch(/Permission denied/);
  });

  test("no configuration of ssh is read, and would run commands", async () => {
    await look();
    expect(hostile.marks()).toEqual([]);
    await look({ "-F": undefined });
    expect(hostile.marks()).toEqual(["configuration-of-system", "configuration-of-user"]);
  });

  test.each<[string, Changes]>([
    ["GlobalKnownHostsFile", { GlobalKnownHostsFile: undefined }],
    ["UserKnownHostsFile", { UserKnownHostsFile: undefined }],
  ])(
    "a host key that the host knows and the configuration does not pin is rejected, and not without %s",
    async (_, changes) => {
      pin("impostor");
      hostile.write("etc/ssh/ssh_known_hosts", "GlobalKnownHostsFile" in changes ? knownHost("host") : "");
      hostile.write("home/.ssh/known_hosts", "UserKnownHostsFile" in changes ? knownHost("host") : "");
      expect(await look()).toMatch(/Host key verification failed/);
      expect(await look(changes)).toBe("");
    },
  );

  test("a key of the account's home is not used, and would be without the line", async () => {
    expect(await look({}, builder("no agent"))).toMatch(/Permission denied \(publickey/);
    expect(await look({ IdentityFile: undefined }, builder("no agent"))).toBe("");
  });
});

describe("a hostile server", () => {
  test("ssh sends no password, and would send an empty one", async () => {
    const attempts = () => server.log().match(/Failed password/g)?.length ?? 0;
    await look({}, builder("no agent"));
    expect(attempts()).toBe(0);
    await look({ PreferredAuthentications: undefined }, builder("no agent"));
    await expect.poll(attempts).toBeGreaterThan(0);
  });

  test("its greeting is not part of git's error, and would be without the line", async () => {
    expect(await look({}, builder("no agent"))).not.toContain("the words of the git host");
    expect(await look({ LogLevel: undefined }, builder("no agent"))).toContain("the words of the git host");
  });
});
