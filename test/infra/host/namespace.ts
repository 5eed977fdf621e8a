/**
 * Runs shell in network namespaces of its own, as root there and without rights outside: real nft, real routing, real
 * sockets, and no packet that could leave. Works for an ordinary user where user namespaces are allowed.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeEach, onTestFinished } from "vitest";

type Tool =
  | ("bwrap" | "curl" | "dash" | "git" | "git-lfs" | "hugo" | "ip" | "nft" | "nginx" | "openssl" | "perl" | "promtool")
  | ("ssh" | "shellcheck" | "systemd-analyze" | "unshare");
/** The packages of programs whose name is another. */
const packageOf: { readonly [tool in Tool]?: string } = {
  ...{ bwrap: "bubblewrap", ip: "iproute2", nft: "nftables", perl: "perl-base", promtool: "prometheus" },
  ...{ ssh: "openssh-client", "systemd-analyze": "systemd", unshare: "util-linux" },
};

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
export const isolated = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/** Why a test that needs these tools cannot run here, with the fix; undefined if it can. */
export function missing(...named: readonly Tool[]): string | undefined {
  // `inNamespace` begins with it.
  const tools: readonly Tool[] = named.includes("unshare") ? [...named, "ip"] : named;
  const folders = env.PATH.split(delimiter);
  const absent = tools.filter((tool) => !folders.some((folder) => existsSync(join(folder, tool))));
  if (absent.length > 0)
    return `${absent.join(", ")} not installed: apt-get install ${absent.map((tool) => packageOf[tool] ?? tool).join(" ")}`;
  const wall = ["--ro-bind", "/", "/", "--unshare-net", "true"];
  if (tools.includes("bwrap") && spawnSync("bwrap", wall, { env }).status !== 0)
    return "bubblewrap may make no namespaces here: run as root";
  if (tools.includes("unshare") && spawnSync("unshare", [...isolated, "true"], { env }).status !== 0)
    return "namespaces are not allowed here: run as root";
  return undefined;
}

/** Skips the tests of this group, or file, where these tools are missing. */
export function needs(...tools: readonly Tool[]): void {
  const reason = missing(...tools);
  beforeEach(({ skip }) => skip(reason !== undefined, reason));
}

export const connect = `perl ${new URL("connect.pl", import.meta.url).pathname}`;

export type Ran = { readonly status: number | null; readonly stdout: string; readonly stderr: string };

/** `sh -e` in new namespaces; `extra` goes before the PATH. The namespace's end kills its processes. */
export function inNamespace(script: string, extra = ""): Ran {
  const at = extra === "" ? env : { ...env, PATH: `${extra}:${env.PATH}` };
  const shell = `ip link set lo up\n${script}`;
  const { status, stdout, stderr } = spawnSync("unshare", [...isolated, "sh", "-ec", shell], {
    env: at,
    encoding: "utf8",
    timeout: 110_000,
    // unshare ignores SIGTERM while it waits.
    killSignal: "SIGKILL",
  });
  return { status, stdout: stdout.trim(), stderr: stderr.trim() };
}

const ofHost = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc"];
/** Why this computer cannot run `onHost`, or undefined. */
export const noHost =
  spawnSync("unshare", [...ofHost, "mount", "-t", "tmpfs", "none", "/etc"], { env }).status === 0
    ? undefined
    : "user and mount namespaces are not allowed here: run as root";

/**
 * Runs `script` on a host of its own: this computer's programs, with empty folders where pushgate writes. It reaches no
 * systemd. By `sh -s`, as the transient unit does: from standard input, so that it is in no argv.
 */
export function onHost(script: string): Ran {
  const prepare = `
for folder in /etc /home /mnt /srv /var/lib /var/spool /var/www /usr/local/lib /run /tmp /root; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
echo root:x:0:0::/root:/bin/sh >/etc/passwd
echo root:x:0: >/etc/group
mkdir -p /var/lib/pushgate/stamps /var/lib/systemd`;
  const { status, stdout, stderr } = spawnSync("unshare", [...ofHost, "sh", "-s"], {
    input: `${prepare}\n${script}`,
    encoding: "utf8",
    timeout: 90_000,
  });
  return { status, stdout, stderr };
}

/**
 * A folder such as the root of a host: `at` gives a path in it, and `moved` writes such paths into a text. It leaves with
 * the test that makes it, or else with the file's tests.
 */
export class Root {
  readonly folder = mkdtempSync(join(tmpdir(), "pushgate-root-"));

  constructor() {
    const leave = () => this.remove();
    try {
      onTestFinished(leave);
    } catch {
      afterAll(leave);
    }
  }

  at(path: string): string {
    return join(this.folder, path);
  }

  write(path: string, text: string, mode = 0o644): string {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), text, { mode });
    return this.at(path);
  }

  /** A rendered text with pushgate's paths, and `more`, moved below the folder. */
  moved(text: string, ...more: string[]): string {
    const prefixes = ["/etc/pushgate", "/usr/local/lib/pushgate", "/var/lib/pushgate", "/run/pushgate-guard", ...more];
    return prefixes.reduce((moved, path) => moved.replaceAll(path, this.at(path)), text);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

type Files = readonly { readonly path: string; readonly text: string }[];
const unitFolder = "/etc/systemd/system/";

/** A unit as systemd reads it: its file, or its template with the name of the instance, and its drop-in. */
export function unitText(files: Files, name: string): string {
  const found = (path: string) => files.find((one) => one.path === `${unitFolder}${path}`)?.text;
  const [, kind, instance = "", type] = /^(.*@)(.*)(\.\w+)$/.exec(name) ?? [];
  const text = found(name) ?? found(`${kind}${type}`)?.replaceAll("%i", instance);
  if (text === undefined) throw new Error(`no file of ${name}`);
  return `${text}\n${found(`${name}.d/site.conf`) ?? ""}`;
}

/** Units by their names: of the templates, an instance for each site that has what the unit is made of. */
function unitsOf(files: Files): string[] {
  const names = files.flatMap(({ path }) => (path.startsWith(unitFolder) ? [path.slice(unitFolder.length)] : []));
  const sites = names.flatMap((name) => /^pushgate-build@(.+)\.service\.d\//.exec(name)?.[1] ?? []);
  const all = names.flatMap((name) => {
    if (name.includes("/")) return [];
    return /^[a-z]+-[a-z]+@\./.test(name) ? sites.map((site) => name.replace("@", `@${site}`)) : [name];
  });
  return all.filter((name) => /^(Exec|On|Listen|Directory|Wants|\[Slice)/m.test(unitText(files, name)));
}

/** The faults that `systemd-analyze verify` finds in units; the programs that they start need not exist here. */
export function verifyUnits(files: Files): string {
  const root = new Root();
  const written = unitsOf(files).map((name) =>
    root.write(name, unitText(files, name).replace(/^(Exec\w+=)\S+/gm, "$1/bin/true")),
  );
  if (written.length === 0) throw new Error("no unit among the files");
  return spawnSync("systemd-analyze", ["verify", "--man=no", ...written], { env, encoding: "utf8" }).stderr;
}

/** Values of a unit's key, or of several in the unit's order: "one|other". */
export const values = (unit: string, key: string): string[] =>
  [...unit.matchAll(new RegExp(`^(?:${key})=(.*)$`, "gm"))].map(([, value]) => value!);

/** Tenths, as `systemd-analyze security` counts a unit's text. Debian 12's systemd and 13's compute the same. */
export function exposure(name: string, unit: string): number {
  const command = ["security", "--offline=true", "--no-pager", new Root().write(name, unit)];
  const { stdout } = spawnSync("systemd-analyze", command, { encoding: "utf8", env: { ...env, LC_ALL: "C" } });
  return Math.round(10 * Number(/Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]));
}

/** The faults that shellcheck and dash find in a script. */
export function lintShell(input: string): string {
  const checked = spawnSync("shellcheck", ["--norc", "-s", "dash", "-"], { env, input, encoding: "utf8" });
  const parsed = spawnSync("dash", ["-n"], { env, input, encoding: "utf8" });
  return checked.stdout + checked.stderr + parsed.stderr;
}

/**
 * Shell: a cable from `own` to a namespace that has the addresses `there`, and default routes between them. Afterwards
 * `nsenter --target "$far" --net` runs a program at the other end.
 */
export const cable = (own: Record<"v4" | "v6", string>, there: Record<"v4" | "v6", readonly string[]>): string => `
unshare -n sleep 300 &
far=$!
while [ "$(readlink "/proc/$far/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link add cable type veth peer name far netns $far
ip link set cable up
ip address add ${own.v4}/32 dev cable
ip address add ${own.v6}/128 dev cable nodad
ip route add default dev cable
ip -6 route add default dev cable
nsenter --target "$far" --net sh -ec '
ip link set lo up
ip link set far up
${there.v4.map((address) => `ip address add ${address}/32 dev far`).join("\n")}
${there.v6.map((address) => `ip address add ${address}/128 dev far nodad`).join("\n")}
ip route add default dev far
ip -6 route add default dev far'
`;
