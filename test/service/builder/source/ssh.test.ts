/** ssh as git starts it, with the real sshd and ssh-agent, on a host whose owner has configured ssh for other programs. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import type { Builder } from "../../../../service/builder/settings.ts";
import { environment } from "../../../../service/builder/source/git.ts";
import { Repository } from "../../../fakes/git-repository.ts";
import { onLoopback } from "../../receiver-process.ts";
import { cannotBuild } from "../harness.ts";
import { type HostileHost, hostileHost, noHostileHost } from "../hostile-host.ts";
import { type Changes, changed, gitWith } from "./git-scene.ts";

const sshd = "/usr/sbin/sshd";
const noServer = existsSync(sshd) ? undefined : "sshd not installed: apt-get install openssh-server";

let folder: string | undefined;
let hostile: HostileHost;
let server: Awaited<ReturnType<typeof startServer>>;
const at = (name: string) => join(folder!, name);

/** Names that a shell and ssh would take apart without quotes. */
const pinned = "it's pinned";
const theAgent = "an agent";

/** `account`: also a key of the git host; `deploy`: in the agent; the others: of hosts. */
const publicKey = (name: "account" | "deploy" | "host" | "impostor") =>
  /^\S+ \S+/.exec(readFileSync(at(`${name}.pub`), "utf8"))![0];

/** Made once for all tests; each begins with the host key pinned. */
beforeEach(async ({ skip }) => {
  for (const reason of [cannotBuild, noHostileHost, noServer]) skip(reason !== undefined, reason);
  if (folder !== undefined) return pin("host");
  folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  hostile = hostileHost(folder);
  for (const name of ["account", "deploy", "host", "impostor"])
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", at(name)]);
  new Repository(at("site.git")).push({ "index.html": "" });
  server = await startServer();
  for (const [name, file] of Object.entries({ system: "etc/ssh/ssh_config", user: "home/.ssh/config" }))
    hostile.write(file, `Match exec "${hostile.mark(`configuration-of-${name}`)}; false"\n`, 0o600);
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
const pin = (name: "host" | "impostor") => writeFileSync(at(pinned), knownHost(name));

async function startServer() {
  // It was free a moment ago.
  const { server: free, port } = await onLoopback();
  await once(free.close(), "close");
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
  await expect.poll(() => existsSync(at(theAgent)) && log).toContain("listening");
  execFileSync("ssh-add", ["-q", at("deploy")], { env: { ...process.env, SSH_AUTH_SOCK: at(theAgent) } });
  return { port, log: () => log, processes: [daemon, agent] };
}

const builder = (agent = theAgent, port = server.port): Builder =>
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
async function look(changes: Changes = {}, of = builder(), seconds = 20): Promise<string> {
  const { code, late, stderr } = await gitWith(of, changes, seconds)(["ls-remote", of.settings.repository], folder);
  return code === 0 ? "" : late ? "late" : stderr;
}

test("the deploy key of the agent and the pinned host key open the repository, and no key of the account's home", async () => {
  expect(await look()).toBe("");
  expect(await look({}, builder("no agent"))).toMatch(/Permission denied \(publickey/);
  expect(await look({ IdentityFile: undefined }, builder("no agent"))).toBe("");
});

test("no configuration of ssh is read, and would run commands", async () => {
  await look();
  expect(hostile.marks()).toEqual([]);
  await look({ "-F": undefined });
  expect(hostile.marks()).toEqual(["configuration-of-system", "configuration-of-user"]);
});

const known: readonly Changes[] = [{ GlobalKnownHostsFile: undefined }, { UserKnownHostsFile: undefined }];
test.each(known)(
  "a host key that the host knows and no configuration pins is rejected, and not with %o",
  async (changes) => {
    pin("impostor");
    hostile.write("etc/ssh/ssh_known_hosts", "GlobalKnownHostsFile" in changes ? knownHost("host") : "");
    hostile.write("home/.ssh/known_hosts", "UserKnownHostsFile" in changes ? knownHost("host") : "");
    expect(await look()).toMatch(/Host key verification failed/);
    expect(await look(changes)).toBe("");
  },
);

test("ssh sends no password, and would send an empty one", async () => {
  const attempts = () => server.log().match(/Failed password/g)?.length ?? 0;
  await look({}, builder("no agent"));
  expect(attempts()).toBe(0);
  await look({ PreferredAuthentications: undefined }, builder("no agent"));
  await expect.poll(attempts).toBeGreaterThan(0);
});

test("the greeting of a server is not part of git's error, and would be without the line", async () => {
  expect(await look({}, builder("no agent"))).not.toContain("the words of the git host");
  expect(await look({ LogLevel: undefined }, builder("no agent"))).toContain("the words of the git host");
});

test("ssh rejects an unknown host key also at a terminal, and would wait for an answer there", () => {
  writeFileSync(at(pinned), "");
  const asked = (changes: Changes) => {
    const { GIT_SSH_COMMAND: command } = changed(environment(builder()), changes);
    const words = `${command} -p ${server.port} ${userInfo().username}@127.0.0.1`;
    return spawnSync("script", ["-qec", words, "/dev/null"], { input: "no\n", encoding: "utf8", timeout: 10_000 })
      .stdout;
  };
  const strict = asked({});
  expect(strict).toMatch(/Host key verification failed/);
  expect(strict).not.toMatch(/continue connecting/);
  expect(asked({ StrictHostKeyChecking: undefined })).toMatch(/Are you sure you want to continue connecting/);
});

test("a server that says nothing, at once or in the middle, is left, and would be waited for", async () => {
  const { server: silent, port } = await onLoopback();
  const mute = builder(undefined, port);
  const hang = `restrict,command="echo $PPID >>${at("stopped")}; kill -STOP $PPID; sleep 60"`;
  writeFileSync(at("authorized_keys"), `${hang} ${publicKey("deploy")}\n`);
  const said = await Promise.all([
    look({ ConnectTimeout: "1" }, mute),
    look({ ConnectTimeout: undefined }, mute, 6),
    look({ ServerAliveInterval: "1" }),
    look({ ServerAliveInterval: undefined }, builder(), 6),
  ]);
  silent.close();
  const stopped = readFileSync(at("stopped"), "utf8").trim().split("\n");
  for (const pid of stopped) process.kill(Number(pid), "SIGKILL");
  expect(stopped).toHaveLength(2);
  expect(said).toEqual([
    expect.stringMatching(/timed out/i),
    "late",
    expect.stringMatching(/Could not read from remote repository/),
    "late",
  ]);
});
