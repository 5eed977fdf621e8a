/**
 * Fake hosts for infra/cli: an `ssh` that runs scripts with the real shell in a folder that serves as that host's root,
 * a `systemctl` that reads its units from a file, a `journalctl` that prints the file `journal`, and a `pulumi` that prints
 * the stack's configuration. `statusJson` is the builder's status.json, and `builder` the shell that a restart of its unit
 * runs. What a host reports of its layers to `trace` is in the files of its folder `state`, as no layer is installed.
 */
import { appendFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import * as v from "valibot";
import { afterAll, expect, vi } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { plainMode, sha256 } from "../../../infra/apply/manifest.ts";
import type { Status } from "../../../infra/cli/site/host-report.ts";
import type { Declared } from "../../../infra/cli/stack.ts";
import { shape } from "../../../infra/config/schema.ts";
import { Repository } from "../../fakes/git-repository.ts";
import { Root } from "../host/namespace.ts";

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

const like = (text: string | RegExp): unknown =>
  typeof text === "string" ? expect.stringContaining(text) : expect.stringMatching(text);
/** A run that ends with this code, and prints the first text among its output and the second among its errors. */
export const ends = (code: number, stdout: string | RegExp = "", stderr: string | RegExp = "") => ({
  ...{ code, stdout: like(stdout), stderr: like(stderr) },
});

export const hostOf = (name: string) => ({
  ...{ name, ssh: `root@${name}`, address: "192.0.2.1", hostname: `${name}-hooks.example.org` },
});
export const hookOf = (more: object = {}) => ({
  ...{ name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" },
  ...more,
});

/** A stack with these hosts and hooks, as a command reads it. */
export function stackOf(hosts: readonly object[], hooks: readonly object[]): Declared {
  const { hosts: hostList, hooks: hookList, limits } = shape.entries;
  return v.parse(v.object({ hosts: hostList, hooks: hookList, limits }), { hosts, hooks, limits: undefined });
}

const commits = ["a", "b", "c"].map((letter) => letter.repeat(40));
const release = (n: number) => ({
  id: `00000${n}-${commits[n - 1]!.slice(0, 12)}`,
  commit: commits[n - 1]!,
  at: `2026-11-2${n}T10:00:00.000Z`,
  pages: 10 * n,
  bytes: 5_000_000 * n,
});
export const releases = [release(3), release(2), release(1)];

/** Three releases, of which the newest is current, and no fault. */
export const status = (changed: Partial<Status> = {}): Status => ({
  hook: "site",
  deployed: { release: releases[0]!.id, commit: releases[0]!.commit, at: releases[0]!.at, warnings: [] },
  head: releases[0]!.commit,
  last: {
    ...{ result: "published", reason: "3 pages changed", commit: releases[0]!.commit, at: releases[0]!.at },
    ...{ trigger: ["delivery 72d3162e"], warnings: [], milliseconds: { total: 1830 } },
  },
  releases,
  ...changed,
});

/** Of `add`: does as service/builder, writes the status with this last run, then removes the request. */
export function builds(last: Partial<Status["last"]>): string {
  const text = JSON.stringify(status({ last: { ...status().last, ...last } }));
  const written = `printf '%s' '${text}' >"$status.new" && mv "$status.new" "$status"`;
  return `${written} && rm "$root/var/spool/pushgate-root/site/$request"`;
}

const running = "loaded active running success enabled";
const everyUnit = {
  "pushgate-nginx.socket": running,
  "pushgate-nginx.service": running,
  "pushgate-receiver.service": "loaded inactive dead success static",
  "pushgate-firewall.service": "loaded active exited success enabled",
  "pushgate-guard.timer": "loaded active waiting success enabled",
  "pushgate-egress.service": "loaded active exited success enabled",
  "pushgate-receiver-github.socket": "loaded active listening success enabled",
  "pushgate-site@site.target": "loaded active active success enabled",
  "pushgate-build@site.path": "loaded active waiting success static",
  "pushgate-request@site.path": "loaded active waiting success static",
  "pushgate-reconcile@site.timer": "loaded active waiting success static",
  "pushgate-generator-site.socket": "loaded active listening success static",
  "pushgate-build@site.service": "loaded active running success static",
};

const ssh = (folder: string) => `
for argument; do target=$command command=$argument; done
host=\${target#*@}
[ -d "${folder}/$host" ] || { echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255; }
echo "$command" >>"${folder}/$host/ssh.log"
exec 3>&1
export STATE="${folder}/$host/state"
moved() { sed -e "s#/\\(etc\\|run\\|usr/local/lib\\|var/[a-z]*\\)/pushgate#${folder}/$host&#g" "$@"; }
command=$(printf '%s' "$command" | moved)
script=$(moved \\
  -e "s|^probe '.*|:|" -e 's#^  echo "state $1 .*#  cat >/dev/null; [ ! -e "$STATE/$1" ] || echo "state $1 $(base64 -w0 <"$STATE/$1")"#')
export PATH="${folder}/$host/bin:$PATH"
printf 'Welcome of a login shell\\npushgate: '
printf '%s' "$script" | sh -c "$command"
`;

const systemctl = (root: string) => `
case $1 in
  show)
    shift 3
    for unit; do
      while read -r id rest; do
        case $id in $unit) ;; *) continue ;; esac
        set -- $rest
        printf 'Id=%s\\nLoadState=%s\\nActiveState=%s\\nSubState=%s\\nResult=%s\\nUnitFileState=%s\\n' "$id" "$@"
        printf 'ActiveEnterTimestamp=Mon 2026-11-23 10:00:00 UTC\\n\\n'
      done <${root}/units
    done ;;
  restart | start)
    echo "$2" >>${root}/$1ed
    setsid ${root}/bin/builder >/dev/null 2>&1 & ;;
esac
`;

/** What a host's probe answers where all is as declared, except for facts of these names. */
export function probeOf(layers: readonly HostLayer[], changed: Readonly<Record<string, string>> = {}): string {
  const files = layers.flatMap(({ files }) => files);
  const rows = [
    ...files.map(({ path, mode, owner }) => ["file", path, "regular file", plainMode(mode), owner]),
    ...files.map(({ path, text }) => ["sha256", path, sha256(text)]),
    ...layers.flatMap(({ name, facts }) =>
      facts.map((fact, index) => {
        const output = Buffer.from(changed[fact.name] ?? fact.want).toString("base64");
        return ["fact64", name, index, 0, output];
      }),
    ),
    ["end"],
  ];
  return JSON.stringify({ pushgate: 1, rows });
}

/** Its paths begin with the name of a host, or are what the commands use: `bin`, and what `pulumi` reads and writes. */
export class Hosts extends Root {
  constructor() {
    super();
    afterAll(() => this.remove());
    this.program("bin/ssh", ssh(this.folder));
    this.program("bin/sudo", '[ "$1" = -n ] && shift && exec "$@"');
    this.git();
  }

  program(path: string, script: string): void {
    this.write(path, `#!/bin/sh\n${script}\n`, 0o755);
  }

  read(path: string): string {
    return readFileSync(this.at(path), "utf8");
  }

  /** git reads the repository of hookOf() from here: a commit of these files on the branch. Without files it reaches none. */
  git(files?: Readonly<Record<string, string>>, branch = "main"): void {
    const folder = this.at("example/site.git");
    rmSync(folder, { recursive: true, force: true });
    const real = `GIT_ALLOW_PROTOCOL=file exec env PATH="\${PATH#*:}" git -c url.file://${this.folder}/.insteadOf=https://github.com/ "$@"`;
    this.program("bin/git", files ? real : 'echo "fatal: Could not resolve host: github.com" >&2; exit 128');
    if (files === undefined) return;
    const repository = new Repository(folder);
    repository.push(files, { branch });
    repository.git("symbolic-ref", "HEAD", `refs/heads/${branch}`);
  }

  /**
   * Sets what `pulumi config --json` prints. calls.log has the calls that change something, pulumi.log has all. A preview
   * copies the file `events`.
   */
  configure(hosts: readonly (string | object)[], hooks: readonly object[], secrets: object = {}): void {
    const of = (objectValue: unknown) => ({ value: JSON.stringify(objectValue), objectValue, secret: false });
    const all = hosts.map((host) => (typeof host === "string" ? hostOf(host) : host));
    const config = { "pushgate:hosts": of(all), "pushgate:hooks": of(hooks), "pushgate:secrets": { secret: true } };
    for (const file of ["calls.log", "pulumi.log", "events"]) this.write(file, "");
    this.write("config.json", JSON.stringify(config));
    this.write("secrets.json", JSON.stringify({ ...config, "pushgate:secrets": of(secrets) }));
    this.program(
      "bin/pulumi",
      `
case "$*" in *--json*) echo "[a module] of NODE_OPTIONS prints {" ;; esac
case "$*" in
  *--show-secrets*) cat ${this.folder}/secrets.json ;;
  "config --json"*) cat ${this.folder}/config.json ;;
  "stack init "*) [ ! -e ../Pulumi.yaml ] || cd ..; echo "encryptionsalt: v1:AAAA:v1:BBBB" >"Pulumi.\${3##*/}.yaml" ;;
  "preview "*) for word; do [ "$last" != --event-log ] || cp ${this.folder}/events "$word"; last=$word; done ;;
  "whoami --json") echo '{"user":"me","url":"file:///backed-up"}' ;;
  *) echo "$* <$(cat)>" >>${this.folder}/calls.log ;;
esac
echo "$*" >>${this.folder}/pulumi.log`,
    );
  }

  /** The number of connections to a host since `add`. */
  connections(host: string): number {
    return this.read(`${host}/ssh.log`).trim().split("\n").length;
  }

  /** A host with one site. `builder`: shell, with $root, $request and $status; `units`: those in another state. */
  add(host: string, more: { builder?: string; units?: Record<string, string>; statusJson?: Status | null } = {}): void {
    const { builder = "", units = {}, statusJson = status() } = more;
    const root = this.at(host);
    rmSync(root, { recursive: true, force: true });
    for (const end of ["", "-publish", "-root"])
      mkdirSync(`${root}/var/spool/pushgate${end}/site`, { recursive: true });
    this.program(`${host}/bin/systemctl`, systemctl(root));
    this.program(`${host}/bin/journalctl`, `cat ${root}/journal`);
    const requests = `${root}/var/spool/pushgate-root/site`;
    const head = `root=${root} status=${root}/var/lib/pushgate-sites/site/status.json request=$(ls ${requests})`;
    this.program(`${host}/bin/builder`, `${head}\n${builder}`);
    const lines = Object.entries({ ...everyUnit, ...units }).map(([name, states]) => `${name} ${states}\n`);
    this.write(`${host}/units`, lines.join(""));
    this.write(`${host}/run/pushgate-guard/verdict`, "proven\n");
    this.write(`${host}/var/lib/pushgate/stamps/guard`, "0.10.0-0123456789ab\nfile x\n");
    for (const log of ["journal", "var/log/pushgate-nginx/hooks.log"]) this.write(`${host}/${log}`, "");
    if (statusJson !== null) this.write(`${host}/var/lib/pushgate-sites/site/status.json`, JSON.stringify(statusJson));
  }

  /** What `init` finds on a host: its addresses, and the id of its login, which may not use sudo. */
  finds(host: string, addresses: readonly string[], uid = 0): void {
    this.program(`${host}/bin/ip`, addresses.map((one) => `echo "2: eth0 inet ${one}/24 scope global"`).join("\n"));
    this.program(`${host}/bin/id`, `echo ${uid}`);
    this.program(`${host}/bin/sudo`, "exit 1");
  }

  /** Appends a delivery's lines to the two logs of a host. `at`: of the journal's. */
  log(host: string, nginx?: object, receiver?: object, at = Date.now()): void {
    const fields = { __REALTIME_TIMESTAMP: String(at * 1000), _SYSTEMD_UNIT: "pushgate-receiver.service" };
    const append = (log: string, line: object) =>
      appendFileSync(this.at(`${host}/${log}`), `${JSON.stringify(line)}\n`);
    if (nginx) append("var/log/pushgate-nginx/hooks.log", nginx);
    if (receiver) append("journal", { ...fields, MESSAGE: JSON.stringify(receiver) });
  }

  /** Runs `pushgate` with these words. */
  run(...words: string[]): Promise<Ran> {
    return this.runIn(process.cwd(), {}, ...words);
  }

  /** In this process, as a start of Node takes longer than most commands: one at a time. */
  async runIn(cwd: string, more: Readonly<Record<string, string>>, ...words: string[]): Promise<Ran> {
    const [env, folder] = [process.env, process.cwd()];
    const { CLOUDFLARE_API_TOKEN: _, CLOUDFLARE_BASE_URL: __, ...inherited } = env;
    const printed: Record<"stdout" | "stderr", unknown[]> = { stdout: [], stderr: [] };
    const spies = (["stdout", "stderr"] as const).flatMap((name) => [
      vi.spyOn(process[name], "write").mockImplementation((part) => printed[name].push(part) > 0),
      vi.spyOn(console, name === "stdout" ? "log" : "error").mockImplementation((line = "") => {
        printed[name].push(`${line}\n`);
      }),
    ]);
    try {
      process.env = { ...inherited, PATH: `${this.at("bin")}:${env.PATH}`, ...more };
      process.chdir(cwd);
      const { pushgate } = await import("../../../infra/cli/main.ts");
      const code = await pushgate(words);
      return { code, stdout: printed.stdout.join(""), stderr: printed.stderr.join("") };
    } finally {
      process.chdir(folder);
      process.env = env;
      process.exitCode = undefined;
      for (const spy of spies) spy.mockRestore();
    }
  }
}
