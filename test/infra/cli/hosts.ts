/**
 * Fake hosts for infra/cli: an `ssh` that runs scripts with the real shell in a folder that serves as that host's root,
 * a `systemctl` that reads its units from a file, and a `pulumi` that prints the stack's configuration. `statusJson` is
 * the builder's status.json, and `builder` the shell that a restart of its unit runs. What a host reports of its layers to
 * `trace` is in the files of its folder `state`, as no layer is installed.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { expect, vi } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { plainMode, sha256 } from "../../../infra/apply/manifest.ts";
import type { Status } from "../../../infra/cli/site/host-report.ts";
import type { Declared } from "../../../infra/cli/stack.ts";
import { shape } from "../../../infra/config/schema.ts";

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

const moved = [
  "/var/lib/pushgate-sites",
  "/var/lib/pushgate/stamps",
  "/var/spool/pushgate",
  "/run/pushgate-guard",
  "/run/pushgate-notify",
  "/etc/pushgate/reporter",
  "/var/log/pushgate-nginx",
  "/usr/local/lib/pushgate",
];

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

const running = "loaded active running success enabled";
const everyUnit = (hook: string): Record<string, string> => ({
  "pushgate-nginx.socket": running,
  "pushgate-nginx.service": running,
  "pushgate-receiver.service": "loaded inactive dead success static",
  "pushgate-firewall.service": "loaded active exited success enabled",
  "pushgate-guard.timer": "loaded active waiting success enabled",
  "pushgate-egress.service": "loaded active exited success enabled",
  "pushgate-receiver-github.socket": "loaded active listening success enabled",
  [`pushgate-site@${hook}.target`]: "loaded active active success enabled",
  [`pushgate-build@${hook}.path`]: "loaded active waiting success static",
  [`pushgate-reconcile@${hook}.timer`]: "loaded active waiting success static",
  [`pushgate-generator-${hook}.socket`]: "loaded active listening success static",
  [`pushgate-build@${hook}.service`]: "loaded active running success static",
});

const ssh = (folder: string) => `#!/bin/sh
for argument; do target=$command command=$argument; done
host=\${target#*@}
[ -d "${folder}/$host" ] || { echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255; }
echo "$command" >>"${folder}/$host/ssh.log"
exec 3>&1
export STATE="${folder}/$host/state"
moved() { sed ${moved.map((path) => `-e "s|${path}|${folder}/$host${path}|g"`).join(" ")} "$@"; }
command=$(printf '%s' "$command" | moved)
script=$(moved \\
  -e "s|^probe '.*|:|" -e 's#^  echo "state $1 .*#  cat >/dev/null; [ ! -e "$STATE/$1" ] || echo "state $1 $(base64 -w0 <"$STATE/$1")"#')
export PATH="${folder}/$host/bin:$PATH"
printf 'Welcome of a login shell\\npushgate: '
printf '%s' "$script" | sh -c "$command"
`;

const systemctl = (root: string) => `#!/bin/sh
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

export class Hosts {
  readonly folder = mkdtempSync(join(tmpdir(), "pushgate-cli-"));
  private readonly bin = join(this.folder, "bin");

  constructor() {
    mkdirSync(this.bin);
    this.program(join(this.bin, "ssh"), ssh(this.folder));
    this.git();
    this.program(join(this.bin, "sudo"), '#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n');
  }

  /** git reads the repository of hookOf() from here: a commit of these files on the branch. Without files it reaches none. */
  git(files?: Readonly<Record<string, string>>, branch = "main"): void {
    const folder = join(this.folder, "example/site.git");
    rmSync(folder, { recursive: true, force: true });
    const real = `GIT_ALLOW_PROTOCOL=file exec env PATH="\${PATH#*:}" git -c url.file://${this.folder}/.insteadOf=https://github.com/ "$@"`;
    this.program(
      join(this.bin, "git"),
      `#!/bin/sh\n${files ? real : 'echo "fatal: Could not resolve host: github.com" >&2; exit 128'}\n`,
    );
    if (files === undefined) return;
    const git = (...args: string[]) => execFileSync("git", ["-C", folder, ...args]);
    execFileSync("git", ["init", "--quiet", `--initial-branch=${branch}`, folder]);
    for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
    git("config", "uploadpack.allowFilter", "true");
    git("add", ".");
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=site");
  }

  program(path: string, text: string): void {
    writeFileSync(path, text, { mode: 0o755 });
  }

  /**
   * Sets the configuration that `pulumi config --json` prints; `others` are further keys with plain values. Other calls of
   * pulumi are in pulumi.log with their input.
   */
  configure(
    hosts: readonly object[],
    hooks: readonly object[],
    secrets: object = {},
    others: Readonly<Record<string, string>> = {},
  ): void {
    const of = (objectValue: unknown) => ({ value: JSON.stringify(objectValue), objectValue, secret: false });
    const plain = Object.fromEntries(Object.entries(others).map(([key, value]) => [key, { value, secret: false }]));
    const lists = { "pushgate:hosts": of(hosts), "pushgate:hooks": of(hooks), "pushgate:secrets": { secret: true } };
    const config = { ...lists, ...plain };
    this.previewed();
    writeFileSync(join(this.folder, "config.json"), JSON.stringify(config));
    const decrypted = { ...config, "pushgate:secrets": of(secrets) };
    writeFileSync(join(this.folder, "secrets.json"), JSON.stringify(decrypted));
    this.program(
      join(this.bin, "pulumi"),
      `#!/bin/sh
case "$*" in *--json*) echo "[a module] of NODE_OPTIONS prints {" ;; esac
case "$*" in
  *--show-secrets*) cat ${this.folder}/secrets.json ;;
  "config --json"*) cat ${this.folder}/config.json ;;
  "stack init "*) echo "encryptionsalt: v1:AAAA:v1:BBBB" >"Pulumi.$3.yaml" ;;
  "preview "*) for word; do [ "$last" != --event-log ] || cp ${this.folder}/events "$word"; last=$word; done ;;
  "whoami --json") echo '{"user":"me","url":"file:///backed-up"}' ;;
  *) echo "$* <$(cat)>" >>${this.folder}/calls.log ;;
esac
echo "$*" >>${this.folder}/pulumi.log
`,
    );
  }

  /** What the engine's log of a preview has. */
  previewed(...events: readonly object[]): void {
    writeFileSync(join(this.folder, "events"), events.map((event) => `${JSON.stringify(event)}\n`).join(""));
  }

  /** The place of a host's path in the test's folder. */
  at(host: string, path: string): string {
    return join(this.folder, host, path);
  }

  write(host: string, path: string, text: string | Buffer): void {
    const file = this.at(host, path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
  }

  /** The number of connections to a host since `add`. */
  connections(host: string): number {
    return readFileSync(this.at(host, "ssh.log"), "utf8").trim().split("\n").length;
  }

  /** A host with one site. `builder`: shell, with $root, $request and $status; `units`: those in another state. */
  add(host: string, more: { builder?: string; units?: Record<string, string>; statusJson?: Status | null } = {}): void {
    const { builder = "", units = {}, statusJson = status() } = more;
    const root = join(this.folder, host);
    rmSync(root, { recursive: true, force: true });
    for (const folder of ["bin", ...["", "-publish", "-root"].map((end) => `var/spool/pushgate${end}/site`)])
      mkdirSync(join(root, folder), { recursive: true });
    this.program(join(root, "bin/systemctl"), systemctl(root));
    const requests = `${root}/var/spool/pushgate-root/site`;
    const head = `root=${root} status=${root}/var/lib/pushgate-sites/site/status.json request=$(ls ${requests})`;
    this.program(join(root, "bin/builder"), `#!/bin/sh\n${head}\n${builder}\n`);
    const lines = Object.entries({ ...everyUnit("site"), ...units }).map(([name, states]) => `${name} ${states}\n`);
    this.write(host, "units", lines.join(""));
    this.write(host, "run/pushgate-guard/verdict", "proven\n");
    this.write(host, "var/lib/pushgate/stamps/guard", "0.10.0-0123456789ab\nfile x\n");
    if (statusJson !== null) this.write(host, "var/lib/pushgate-sites/site/status.json", JSON.stringify(statusJson));
  }

  /** Appends a delivery's lines to the two logs of a host. `at`: of the journal's. */
  log(host: string, nginx?: object, receiver?: object, at = Date.now()): void {
    const fields = { __REALTIME_TIMESTAMP: String(at * 1000), _SYSTEMD_UNIT: "pushgate-receiver.service" };
    mkdirSync(this.at(host, "var/log/pushgate-nginx"), { recursive: true });
    for (const [path, line] of [
      ["var/log/pushgate-nginx/hooks.log", nginx],
      ["journal", receiver && { ...fields, MESSAGE: JSON.stringify(receiver) }],
    ] as const)
      appendFileSync(this.at(host, path), line === undefined ? "" : `${JSON.stringify(line)}\n`);
    this.program(this.at(host, "bin/journalctl"), `#!/bin/sh\ncat ${this.at(host, "journal")}\n`);
  }

  /** Runs `pushgate` with these words. */
  run(...words: string[]): Promise<Ran> {
    return this.runIn(process.cwd(), {}, ...words);
  }

  /** In this process, as a start of Node takes longer than most commands: one at a time. */
  async runIn(cwd: string, more: Readonly<Record<string, string>>, ...words: string[]): Promise<Ran> {
    const [env, folder] = [process.env, process.cwd()];
    const { CLOUDFLARE_API_TOKEN: _, CLOUDFLARE_BASE_URL: __, ...inherited } = env;
    const text = { stdout: "", stderr: "" };
    const spies = (["stdout", "stderr"] as const).flatMap((name) => {
      const add = (part: unknown): true => {
        text[name] += part;
        return true;
      };
      const print = (line = ""): void => void add(`${line}\n`);
      const method = name === "stdout" ? "log" : "error";
      return [
        vi.spyOn(process[name], "write").mockImplementation(add),
        vi.spyOn(console, method).mockImplementation(print),
      ];
    });
    try {
      process.env = { ...inherited, PATH: `${this.bin}:${env.PATH}`, ...more };
      process.chdir(cwd);
      const { pushgate } = await import("../../../infra/cli/main.ts");
      return { code: await pushgate(words), ...text };
    } finally {
      process.chdir(folder);
      process.env = env;
      process.exitCode = undefined;
      for (const spy of spies) spy.mockRestore();
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
