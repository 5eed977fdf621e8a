/** probe.sh with the real shell: its rows, hostile output, and texts that are cut on the way. */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { HostFact } from "../../../infra/apply/layer.ts";
import { factLine, probeScript, sha256 } from "../../../infra/apply/manifest.ts";
import { parseProbe } from "../../../infra/apply/report.ts";
import { quote } from "../../../infra/apply/shell.ts";
import { applyScript, daemonLayer, me, probed, ShellHost } from "./shell-host.ts";

let host: ShellHost;
beforeEach(() => {
  host = new ShellHost();
});
afterEach(() => host[Symbol.dispose]());

test("the probe reports each file with type, mode, owner, hash and text, and leaves out a missing one", () => {
  const text = 'it\'s "text" \\ $(x)\n\u00e9\u20ac no end';
  writeFileSync(join(host.etc, "file"), text, { mode: 0o640 });
  writeFileSync(join(host.etc, "empty"), "", { mode: 0o600 });
  writeFileSync(join(host.etc, "big"), "x".repeat(65_537), { mode: 0o600 });
  symlinkSync("/etc/shadow", join(host.etc, "link"));
  mkdirSync(join(host.etc, "folder"), { mode: 0o755 });
  spawnSync("mkfifo", ["-m", "600", join(host.etc, "fifo")]);
  const names = ["file", "empty", "big", "link", "folder", "fifo", "missing"];
  const { files } = host.see(probed(host, [], names));
  const [file, empty, big, link, folder, fifo, missing] = names.map((name) => files[join(host.etc, name)]);
  expect(file).toEqual({ type: "regular file", mode: "640", owner: me, sha256: sha256(text), text });
  expect(empty).toEqual({ type: "regular file", mode: "600", owner: me, sha256: sha256(""), text: "" });
  expect(big).toEqual({ type: "regular file", mode: "600", owner: me, sha256: sha256("x".repeat(65_537)) });
  // A link's target is never read: it may be a secret file.
  expect(link).toEqual({ type: "symbolic link", mode: "777", owner: me });
  expect(folder).toMatchObject({ type: "directory" });
  expect(fifo).toEqual({ type: "fifo", mode: "600", owner: me });
  expect(missing).toBeUndefined();
});

test("the probe reports every path that the globs match, also dangling links and hostile names", () => {
  const names = ["owned-a", 'owned-"b', "owned-c\nd", "owned-e *"];
  for (const name of names) writeFileSync(join(host.etc, name), "");
  symlinkSync("nowhere", join(host.etc, "owned-link"));
  writeFileSync(join(host.etc, "other"), "");
  const { owned } = host.see(probed(host, []));
  expect([...owned].sort()).toEqual([...names, "owned-link"].map((name) => join(host.etc, name)).sort());
});

test("the probe reports the first line of a stamp file as the stamp, and the rest as what was applied", () => {
  const layer = daemonLayer(host, { "pg-one": { text: "x", mode: "0644" } });
  expect(host.see(layer).stamp).toBeUndefined();
  expect(host.apply(layer, "0.1.0-0123456789ab").status).toBe(0);
  const seen = host.see(layer);
  expect(seen.stamp).toBe("0.1.0-0123456789ab");
  expect(seen.applied).toHaveLength(2);
  expect(seen.applied[0]).toBe(`file ${sha256("x")} 644 ${me} ${host.etc}/pg-one`);
  expect(seen.applied[1]).toBe(factLine(undefined, layer.facts[0]!));
});

// Text that apply.sh never writes, and what is no file.
test.each([`printf '"' >`, "printf 'a\\033[2J' >", "printf '\\303\\251' >", "mkdir", "mkfifo", "ln -s /dev/zero"])(
  "the probe reports what `%s` makes in place of a stamp file as invalid",
  (command) => {
    mkdirSync(join(host.state, "stamps"), { recursive: true });
    spawnSync("sh", ["-c", `${command} ${host.state}/stamps/x`]);
    expect(host.see(probed(host, [])).stamp).toBe("invalid");
  },
);

describe("facts", () => {
  test("the probe reports trimmed output and exit status, and no standard error", () => {
    const { facts } = host.see(
      probed(host, ["echo ' a b '; echo no >&2; exit 3", "true", "printf '\\n x'", "echo ${1:-none}"]),
    );
    expect(facts).toEqual([
      { output: "a b", status: 3 },
      { output: "", status: 0 },
      { output: "x", status: 0 },
      { output: "none", status: 0 },
    ]);
  });

  describe("systemd", () => {
    const [a, b, c, masked] = ["pushgate-a.service", "pushgate-b.service", "pushgate-c@x.path", "pushgate-d.timer"];
    const failed = "pushgate-e.service";
    const queries = [
      ...[`is-enabled ${a}`, `is-active ${a}`, `is-enabled ${b}`, `is-active ${b}`, `is-enabled ${masked}`],
      ...[`is-active ${a} ${c}`, `is-active ${a} ${b}`, "--version", `is-active ${failed} ${a}`],
    ];
    const queried = queries.map((query) => `queried ${query}`);
    /** With `active` units, and a failed one; `a` and `masked` are enabled. */
    const answers = (active: readonly string[]) => {
      using host = new ShellHost();
      const lines = [...active.map((unit) => `${unit} loaded active running`), `${failed} loaded failed failed`];
      const list = lines.map((line) => `echo "${line} a unit"`).join("\n");
      const program = `#!/bin/sh\ncase $1 in list-units) ${list}\n ;; *) echo "queried $*" ;; esac\n`;
      writeFileSync(join(host.root, "systemctl"), program, { mode: 0o755 });
      const wants = join(host.etc, "systemd/system/timers.target.wants");
      mkdirSync(wants, { recursive: true });
      writeFileSync(join(wants, "..", a), "");
      symlinkSync("/dev/null", join(wants, "..", masked));
      for (const unit of [a, masked]) symlinkSync(join(wants, "..", unit), join(wants, unit));
      const layer = probed(
        host,
        queries.map((query) => `systemctl ${query}`),
      );
      const script = probeScript([layer], host.state).replaceAll("/etc/systemd", `${host.etc}/systemd`);
      const { stdout } = host.run(script, { PATH: `${host.root}:${process.env.PATH}` });
      return parseProbe(stdout, [layer.name]).layers[layer.name]!.facts.map((fact) => fact?.output);
    };

    test("is queried once for all units, and again for one that is not as it should be", () => {
      const rest = [...queried.slice(2, 5), "active\nactive", ...queried.slice(6, 8), "failed\nactive"];
      expect(answers([a, c])).toEqual(["enabled", "active", ...rest]);
      expect(answers([])).toEqual(["enabled", ...queried.slice(1)]);
      const many = Array.from({ length: 3_000 }, (_, i) => `pushgate-more@${i}.service`);
      expect(answers([...many, a, c])).toEqual(["enabled", "active", ...rest]);
    });

    const folders = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
    test.each([
      ...[...folders, "/usr/local/lib/systemd/system", "/etc/systemd/system.control", "/run/systemd/system.control"],
    ])("has read all units if no file and no folder in %s changed since", async (folder) => {
      const [dropIns, linked] = [join(host.root, folder, "a.service.d"), join(host.root, "linked")];
      const file = join(dropIns, "a.conf");
      mkdirSync(dropIns, { recursive: true });
      for (const path of [file, linked]) writeFileSync(path, "");
      symlinkSync(linked, join(dropIns, "b.conf"));
      symlinkSync("nothing", join(dropIns, "..", "c.service"));
      const script = probeScript([probed(host, ["echo $all_read"])], host.state).replaceAll(
        / (\/(?:etc|run|usr\/local\/lib|usr\/lib)\/systemd\/system)/g,
        ` ${host.root}$1`,
      );
      /** Whether all were read after these changes, which systemd has not read. */
      const afterwards = async (change = () => {}, answer = 'printf "t %s\\n" 0 "$1"') => {
        await setTimeout(20);
        const program = `#!/bin/sh\nset -- ${Date.now()}000\n${answer}\n`;
        writeFileSync(join(host.root, "busctl"), program, { mode: 0o755 });
        await setTimeout(20);
        change();
        const { stdout } = host.run(script, { PATH: `${host.root}:${process.env.PATH}` });
        return parseProbe(stdout, ["x"]).layers.x!.facts[0]!.output;
      };
      expect(await afterwards()).toBe("yes");
      expect(await afterwards(() => appendFileSync(file, "x"))).toBe("no");
      expect(await afterwards(() => appendFileSync(linked, "x"))).toBe("no");
      expect(await afterwards(() => utimesSync(file, 0, 0))).toBe("no");
      expect(await afterwards()).toBe("yes");
      expect(await afterwards(() => rmSync(file))).toBe("no");
      expect(await afterwards(() => rmSync(dropIns, { recursive: true }))).toBe("no");
      expect(await afterwards(() => {}, "exit 1")).toBe("no");
    });
  });

  test("no fact breaks the answer", () => {
    const hostile = [
      `printf '"],\\n["end"]]}\\n'`,
      "head -c 300000 /dev/urandom",
      "printf 'a\\0b'",
      "exit 1; (",
      "exec 1>&-",
      "cat",
      "yes | head -c 100000",
      "set -e; false",
      "unset PATH; LC_ALL=x; printf() { :; }",
      "head -c 100000 /dev/zero | tr '\\0' y",
      "printf '%s' 'a\\u0022,b'",
      "printf '%s' 'a\\'",
    ];
    const { facts } = host.see(probed(host, [...hostile, "echo whole"]));
    expect(facts).toHaveLength(hostile.length + 1);
    expect(facts[0]?.output).toBe('"],\n["end"]]}');
    expect(facts.at(-1)).toEqual({ output: "whole", status: 0 });
    // 2 KiB of it, so that a row stays one write.
    expect(facts[6]?.output).toHaveLength(2047);
    expect(facts[9]?.output).toBe("y".repeat(2048));
    expect(facts.slice(10, 12).map((fact) => fact?.output)).toEqual(["a\\u0022,b", "a\\"]);
  });

  test.each(["dash", "bash"])("%s reads the facts of several layers at once into rows of their own", (shell) => {
    const of = (name: string, index: number) => `${name}${index}\n\n${"0".repeat(1_500)}`;
    const layers = ["a", "b", "c", "d"].map((name) => ({
      ...{ ...probed(host, []), name, script: 'echo noise; before_facts() { echo noise; show="printf %s"; }' },
      facts: Array.from({ length: 100 }, (_, index) => ({ name: "f", read: `$show ${quote(of(name, index))}` })),
    }));
    const report = host.report(layers, shell);
    for (const { name, facts } of layers)
      expect(report.layers[name]?.facts.map((fact) => fact?.output)).toEqual(facts.map((_, index) => of(name, index)));
  });
});

test("the probe reports what preflight reads, and changes nothing", () => {
  const before = host.tree(host.root);
  const { system, listeners } = host.report([daemonLayer(host, { "pg-one": { text: "x", mode: "0644" } })]);
  expect(host.tree(host.root)).toEqual(before);
  expect(system.uid).toEqual({ output: String(process.getuid?.()), status: 0 });
  expect(system.free?.output.split("\n")).toHaveLength(3);
  expect(system.pid1?.output).not.toBe("");
  expect(["enforced", "absent", "unknown"]).toContain(system.bpf?.output);
  expect(listeners.every(({ port }) => port > 0 && port < 65_536)).toBe(true);
});

test("a script that is cut anywhere runs nothing", () => {
  const layer = daemonLayer(host, { "pg-one": { text: "it's\n", mode: "0644" } });
  const probing = probeScript([layer], host.state);
  const applying = applyScript(layer, "0.1.0-0123456789ab", host.state);
  const before = host.tree(host.root);
  for (const script of [probing, applying]) {
    const last = script.trimEnd().lastIndexOf("\n") + 1;
    const ends = [...script.slice(0, last).matchAll(/\n/g)].map(({ index }) => index + 1);
    for (const cut of [...ends.filter((_, n) => n % 25 === 0), ...ends.slice(-4), last + 2]) {
      const { stdout } = host.run(script.slice(0, cut));
      expect(stdout).toBe("");
      expect(host.tree(host.root)).toEqual(before);
    }
  }
});

const rest = { files: [], owns: [], activate: ":", retire: ":", timeout: 60 };
test.each<[says: string | undefined, facts: HostFact[], input?: string]>([
  ["a shell cannot carry a NUL character", [{ name: "f", read: "\0", want: "" }]],
  ["a shell cannot carry a NUL character", [], "a\0b"],
  ['the fact "f" is longer than 2048 bytes', [{ name: "f", read: "x", want: "\u00e9".repeat(1025) }]],
  [undefined, [{ name: "f", read: "x", want: "x".repeat(2048) }]],
])("applyScript throws on what no host could confirm or run: %s", (says, facts, input) => {
  const script = () => applyScript({ name: "x", ...rest, facts }, "0.1.0-0123456789ab", undefined, input);
  if (says === undefined) expect(script).not.toThrow();
  else expect(script).toThrow(`layer x: ${says}`);
});
