/**
 * A host made of a temporary folder and the real shell: probe.sh and apply.sh run unchanged, as the user who runs the
 * test, on paths below the folder. The engine is modelled by one rule: it runs a command again exactly if its input
 * differs from the last one that succeeded.
 */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { HostFile, HostLayer } from "../../../infra/apply/layer.ts";
import {
  commonScript,
  declaredScript,
  factLine,
  fileLine,
  type Probed,
  plainMode,
  probeScript,
  sha256,
} from "../../../infra/apply/manifest.ts";
import { type HostReport, parseProbe, type SeenLayer } from "../../../infra/apply/report.ts";
import { sealed } from "../../../infra/apply/version.ts";
import type { Ran } from "../host/namespace.ts";

/** "user:group" of the user who runs the test. */
export const me = spawnSync("sh", ["-c", 'printf "%s:%s" "$(id -un)" "$(id -gn)"'], { encoding: "utf8" }).stdout;

export const applyScript = (layer: HostLayer, ...more: [stamp: string, state?: string, input?: string]): string =>
  commonScript(layer) + declaredScript(layer, ...more);

/** An apply can be killed at each call of these tools. */
const tools = ["chmod", "chown", "cp", "mkdir", "mv", "rm", "rmdir", "sort", "sync"];

export class ShellHost {
  readonly root: string;
  readonly etc: string;
  readonly state: string;
  /** The files that the fake daemon has loaded. */
  readonly live: string;

  /** The folder of the tools that kill; /dev/shm may be mounted noexec. */
  private readonly bin: string;

  /** By default in memory, because an apply syncs what it writes, and a disk would be most of a walk's time. */
  constructor(parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()) {
    this.root = mkdtempSync(join(realpathSync(parent), "pushgate-host-"));
    this.bin = mkdtempSync(join(tmpdir(), "pushgate-bin-"));
    this.etc = join(this.root, "etc");
    this.live = join(this.root, "live");
    this.state = join(this.root, "var/pushgate");
    for (const folder of [this.etc, this.live, join(this.root, "var")]) mkdirSync(folder);
    writeFileSync(join(this.etc, "neighbour.conf"), "not pushgate's\n");
  }

  [Symbol.dispose](): void {
    for (const folder of [this.root, this.bin]) rmSync(folder, { recursive: true, force: true });
  }

  run(script: string, env: Record<string, string> = {}): Ran {
    // A group of its own, so that a kill takes all of the apply and nothing else.
    const options = { input: script, encoding: "utf8", env: { PATH: process.env.PATH ?? "", ...env } } as const;
    const { status, stdout, stderr } = spawnSync("setsid", ["-w", "sh", "-s"], { ...options, timeout: 60_000 });
    return { status, stdout, stderr };
  }

  /** The probe's answer. `shell`: what sh is on the host. */
  report(layers: readonly Probed[], shell = "sh"): HostReport {
    const { stdout } = this.run(probeScript(layers, this.state).replace(" sh -s ", ` ${shell} -s `));
    const names = layers.map(({ name }) => name);
    return parseProbe(stdout, names);
  }

  see(layer: Probed): SeenLayer {
    return this.report([layer]).layers[layer.name]!;
  }

  script(layer: HostLayer, stamp: string): string {
    return applyScript(layer, stamp, this.state);
  }

  apply(layer: HostLayer, stamp: string): Ran {
    return this.run(this.script(layer, stamp));
  }

  /** Runs an apply and kills it, with all its processes, at its nth call of a tool. */
  killedApply(script: string, nth: number): Ran {
    const count = join(this.bin, "count");
    writeFileSync(count, "");
    return this.watchedApply(script, `echo x >>${count}\n[ "$(wc -l <${count})" -ne ${nth} ] || kill -9 0`);
  }

  /** Runs an apply, and these lines of shell before each of its calls of a tool, which is in `$tool` and "$@". */
  watchedApply(script: string, lines: string): Ran {
    for (const tool of tools) {
      const text = `#!/bin/sh\ntool=${tool}\n${lines}\nPATH=\${PATH#*:}\nexec ${tool} "$@"\n`;
      writeFileSync(join(this.bin, tool), text, { mode: 0o755 });
    }
    return this.run(script, { PATH: `${this.bin}:${process.env.PATH}` });
  }

  /** Everything below a folder: path, type, mode, contents or target. */
  tree(folder: string = this.etc): string[] {
    return readdirSync(folder, { recursive: true, encoding: "utf8" })
      .sort()
      .map((name) => {
        const path = join(folder, name);
        const stat = lstatSync(path);
        const mode = (stat.mode & 0o7777).toString(8);
        if (stat.isSymbolicLink()) return `${name} -> ${readlinkSync(path)}`;
        if (stat.isDirectory()) return `${name}/ ${mode}`;
        return `${name} ${mode} ${stat.isFile() ? readFileSync(path, "utf8") : "special"}`;
      });
  }
}

/** name below etc -> contents and mode. */
export type Files = Readonly<Record<string, { readonly text: string; readonly mode: HostFile["mode"] }>>;

/**
 * A layer of a fake daemon that loads only the files in `$changed`. The layer's check rejects a file with the line
 * REJECTED, the daemon one with the line FATAL. A fact lists the files that the daemon has loaded.
 */
export function daemonLayer(host: ShellHost, files: Files, present = true): HostLayer {
  const { etc, live } = host;
  const path = (name: string) => `${etc}/${name}` as `/${string}`;
  const load = `printf '%s\\n' "$changed" | while IFS= read -r path; do
  [ -n "$path" ] || continue
  name=$(printf %s "\${path#${etc}/}" | tr / %)
  if [ ! -f "$path" ]; then rm -f "${live}/$name"; continue; fi
  if grep -q FATAL "$path"; then echo "daemon: $path is fatal" >&2; exit 1; fi
  cat "$path" >"${live}/$name"
done`;
  const declared = Object.entries(files);
  const loaded = declared.map(([name, { text }]) => `${sha256(text)}  ${name.replaceAll("/", "%")}`);
  const common = { name: "daemon", owns: [`${etc}/pg-*`, `${etc}/pg.d/*`, `${etc}/pg.d/sub/*`], timeout: 60 };
  if (!present) return { ...common, files: [], facts: [], activate: ":", retire: `rm -f ${live}/*`, present };
  return {
    ...common,
    files: declared.map(([name, { text, mode }]) => ({
      path: path(name),
      text,
      mode,
      owner: me,
      ...(name.includes("/") && { fixed: true as const }),
      check: `if grep -q REJECTED "$1"; then echo "line 1: REJECTED in \${1##*/}"; exit 1; fi`,
    })),
    activate: load,
    reactivate: load,
    retire: `rm -f ${live}/*`,
    // One fact for all files: a process for each would be most of a walk's time.
    facts: [{ name: "loaded", read: `cd ${live} && sha256sum * | sort`, want: loaded.sort().join("\n") }],
    present,
  };
}

/** Whether the host is as declared, judged without any of the code under test. */
export function asDeclared(host: ShellHost, files: Files, present: boolean, base: readonly string[]): boolean {
  const tree = host.tree();
  if (!present) return tree.join("\n") === base.join("\n") && readdirSync(host.live).length === 0;
  const managed = tree.filter((line) => line.startsWith("pg") && !/^pg\.d(\/sub)?\/ 755$/.test(line));
  const live = host.tree(host.live).map((line) => line.replaceAll("%", "/").replace(/ \d+ /, " "));
  const all = Object.entries(files);
  const wanted = all.map(([name, { text, mode }]) => `${name} ${mode.replace(/^0/, "")} ${text}`);
  const wantedLive = all.map(([name, { text }]) => `${name} ${text}`);
  return isDeepStrictEqual([managed.sort(), live.sort()], [wanted.sort(), wantedLive.sort()]);
}

/** Two states of the layer, between which an apply goes. */
export const stamps = { former: sealed("daemon", "0.1.0-01234567"), next: sealed("daemon", "0.1.0-ba987654") };
export const before: Files = {
  "pg-one": { text: "one\n", mode: "0644" },
  "pg.d/three": { text: "three\n", mode: "0600" },
};
export const after: Files = {
  "pg-one": { text: "1\n", mode: "0644" },
  "pg.d/sub/four": { text: "4 #ünï新\n", mode: "0755" },
};

/** A host on which `before` is applied. */
export function appliedHost(parent?: string): ShellHost {
  const host = new ShellHost(parent);
  const { status, stderr } = host.apply(daemonLayer(host, before), stamps.former);
  if (status !== 0) throw new Error(`the first apply failed:\n${stderr}`);
  return host;
}

let first: ShellHost | undefined;

/** A copy of one, as an apply takes 0.1 s. */
export function copiedHost(): ShellHost {
  if (first === undefined) {
    first = appliedHost();
    process.on("exit", () => first?.[Symbol.dispose]());
  }
  const host = new ShellHost();
  cpSync(first.root, host.root, { recursive: true });
  for (const name of ["made", "stamps/daemon"]) {
    const file = join(host.state, name);
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(first.root, host.root));
  }
  return host;
}

export function stampOf(host: ShellHost): string | undefined {
  const path = join(host.state, "stamps/daemon");
  return existsSync(path) ? readFileSync(path, "utf8").split("\n")[0] : undefined;
}

/** A layer for the probe of files below `etc`, and facts that these scripts read. */
export const probed = (host: ShellHost, reads: readonly string[], files: readonly string[] = []): Probed => ({
  name: "x",
  files: files.map((name) => ({ path: join(host.etc, name) as `/${string}` })),
  owns: [`${host.etc}/owned-*`],
  facts: reads.map((read) => ({ name: "fact", read })),
});

/** What a probe sees of a layer that is as declared. */
export const seenAsDeclared = ({ name, script, files, facts }: HostLayer): SeenLayer => ({
  ...{ name, stamp: sealed(name, "0.1.0-01234567"), owned: files.map(({ path }) => path) },
  applied: [...files.map(fileLine), ...facts.map((fact) => factLine(script, fact))],
  files: Object.fromEntries(
    files.map(({ path, text, mode, owner }) => [
      path,
      { type: "regular file", mode: plainMode(mode), owner, sha256: sha256(text), text },
    ]),
  ),
  facts: facts.map(({ want }) => ({ output: want, status: 0 })),
});
