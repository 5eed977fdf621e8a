/**
 * A real Gitea, built by `install-gitea.ts`: https and its own SSH server, in a network namespace of its own, so that its
 * deliveries come from its own address. A lab has one. It runs as the account "git": it refuses to run as root.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import type { Repository } from "../../fakes/git-repository.ts";
import { writeIdentity } from "../../fakes/https-server.ts";
import { findGitea, noGitea } from "./install-gitea.ts";
import { labFolder, nameAddress } from "./lab.ts";
import { wire } from "./net.ts";
import { run, until } from "./process.ts";

/** Public, in no git host's ranges, and not in `actors`, which are the lab's own. */
const address = "217.197.84.150";
const name = "gitea.example.net";
/** The owner of its repositories, who administers it. */
const owner = "example";
/** Where its account finds the program, as it may not enter root's home, and its files, which end with the lab. */
const [program, folder] = [join(labFolder, "gitea"), join(labFolder, "gitea-files")];
const at = (file: string): string => join(folder, file);
const read = (file: string): string => readFileSync(at(file), "utf8");

type Headers = Readonly<Record<string, string>>;
/** A row of its delivery history, for which it has no API: its pages read the same table. */
export type Delivered = {
  readonly id: string;
  readonly commit: string;
  readonly succeeded: 0 | 1;
  readonly sent: Headers | null;
  /** null until it has ended. */
  readonly answer: { readonly status: number; readonly headers: Headers } | null;
};
const historyQuery = `SELECT json_object('id', uuid, 'commit', payload_content->>'after',
  'succeeded', is_succeed, 'sent', nullif(request_content, '')->'headers', 'answer', json(nullif(response_content, ''))
) AS row FROM hook_task ORDER BY id DESC`;

export type Gitea = Awaited<ReturnType<typeof startGitea>>;

/** `trusted`: the certificate of the server that it delivers to. */
export async function startGitea(trusted: string) {
  const built = findGitea();
  if (built === undefined) throw new Error(noGitea);
  for (const one of [program, folder]) mkdirSync(one);
  await run("mount", ["--bind", built, program]);
  await run("sh", ["-e", "-c", network]);
  nameAddress(address, name);
  await writeIdentity(folder, name);
  for (const key of ["host", "deploy"])
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", key, "-f", at(key)]);
  writeFileSync(at("trusted.pem"), trusted);
  writeFileSync(at("app.ini"), configuration);
  await run("chown", ["-R", "git:nogroup", folder]);
  setDefaultCACertificates([...getCACertificates(), read("ca.pem")]);

  const env = { PATH: process.env.PATH, HOME: folder, SSL_CERT_FILE: at("trusted.pem") };
  const prefix = `netns exec gitea setpriv --reuid=git --regid=nogroup --clear-groups ${program}/gitea -c ${at("app.ini")}`;
  const command = async (text: string) => (await run("ip", `${prefix} ${text}`.split(" "), { env })).stdout.trim();
  const tokenOf = (scope: string) =>
    command(`admin user generate-access-token --raw --username ${owner} --token-name ${scope} --scopes ${scope}`);
  await command("migrate");
  await command(`admin user create --admin --random-password --username ${owner} --email owner@example.net`);
  const [all, token] = [await tokenOf("all"), await tokenOf("write:repository")];

  /** A request of its API, as its administrator. */
  async function api<T>(method: string, path: string, body?: object): Promise<T> {
    const headers = { authorization: `token ${all}`, "content-type": "application/json" };
    const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const answer = await fetch(`https://${name}/api/v1${path}`, sent);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }
  let daemon: ChildProcess;
  async function start(): Promise<void> {
    daemon = spawn("ip", `${prefix} web`.split(" "), { env, stdio: "ignore" });
    await until("Gitea answers", () => api<object>("GET", "/version").catch(() => undefined), {
      pause: 100,
      timeout: 90_000,
    });
  }
  async function stop(): Promise<void> {
    const ended = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill("SIGTERM");
    await ended;
  }
  await start();

  return {
    ...{ name, address, token, api, stop, ca: read("ca.pem"), caFile: at("ca.pem") },
    url: (repository: string) => `https://${name}/${owner}/${repository}.git`,
    ssh: {
      url: (repository: string) => `ssh://git@${name}/${owner}/${repository}.git`,
      deployKey: read("deploy"),
      knownHosts: `${name} ${read("host.pub").split(" ").slice(0, 2).join(" ")}`,
    },
    /** Creates a repository; the deploy key may read a private one. */
    async create(repository: string, isPrivate = false): Promise<void> {
      await api("POST", "/user/repos", { name: repository, default_branch: "main", private: isPrivate });
      const key = { title: "pushgate", key: read("deploy.pub"), read_only: true };
      if (isPrivate) await api("POST", `/repos/${owner}/${repository}/keys`, key);
    },
    /** Keeps a file, as `git lfs push` does. Returns what the commit has in its place. */
    async keep(repository: string, file: string): Promise<string> {
      const oid = createHash("sha256").update(file).digest("hex");
      const at = `${oid}/${Buffer.byteLength(file)}`;
      const authorization = `Basic ${btoa(`${owner}:${token}`)}`;
      const accept = "application/vnd.git-lfs+json";
      const headers = { accept, authorization, "content-type": "application/octet-stream" };
      const url = `https://${name}/${owner}/${repository}.git/info/lfs/objects/${at}`;
      const { status } = await fetch(url, { method: "PUT", headers, body: file });
      if (status !== 200) throw new Error(`Gitea does not keep the file: ${status}`);
      return `version https://git-lfs.github.com/spec/v1\noid sha256:${at.replace("/", "\nsize ")}\n`;
    },
    /** Pushes main as it is; returns its commit. */
    push(repository: string, from: Repository): string {
      const to = `https://${owner}:${token}@${name}/${owner}/${repository}.git`;
      from.git("-c", `http.sslCAInfo=${at("ca.pem")}`, "push", "--quiet", to, "main");
      return from.head()!;
    },
    /** The newest first. */
    history(): Delivered[] {
      const database = new DatabaseSync(at("data/gitea.db"), { readOnly: true, timeout: 10_000 });
      const rows = database.prepare(historyQuery).all();
      database.close();
      return rows.map(({ row }) => JSON.parse(String(row)) as Delivered);
    },
  };
}

/** Ports below 1024 are open to its account. */
const network = `ip netns add gitea
ip link add gitea type veth peer name eth0 netns gitea
ip link set gitea up
ip route add ${address} dev gitea
ip -n gitea link set lo up
ip -n gitea link set eth0 up
ip -n gitea addr add ${address} dev eth0
ip -n gitea route add default via ${wire.gateway.v4} dev eth0 onlink
ip netns exec gitea sysctl -qw net.ipv4.ip_unprivileged_port_start=0
`;

const configuration = `WORK_PATH = ${folder}
[server]
PROTOCOL = https
ROOT_URL = https://${name}/
HTTP_ADDR = ${address}
HTTP_PORT = 443
CERT_FILE = ${folder}/own.pem
KEY_FILE = ${folder}/own.key
STATIC_ROOT_PATH = ${program}
START_SSH_SERVER = true
LFS_START_SERVER = true
SSH_SERVER_HOST_KEYS = ${folder}/host
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[indexer]
ISSUE_INDEXER_TYPE = db
`;
