/** probe.sh with the real shell: its rows, hostile output, and texts that are cut on the way. */
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyScript, type Probed, probeScript, sha256 } from "../../../infra/apply/manifest.ts";
import { parseProbe } from "../../../infra/apply/report.ts";
import { quote } from "../../../infra/apply/shell.ts";
import { daemonLayer, me, probed, ShellHost } from "./shell-host.ts";

test.each(["apply", "fact", "probe", "system"].map((name) => `infra/apply/${name}.sh`))("dash parses %s", (script) => {
  expect(spawnSync("dash", ["-n", script], { encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
});

describe("files", () => {
  test("the probe reports each with type, mode, owner, hash and text, and leaves out a missing one", () => {
    using host = new ShellHost();
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
    expect(empty).toEqual({ type: "regular empty file", mode: "600", owner: me, sha256: sha256(""), text: "" });
    expect(big).toEqual({ type: "regular file", mode: "600", owner: me, sha256: sha256("x".repeat(65_537)) });
    // A link's target is never read: it may be a secret file.
    expect(link).toEqual({ type: "symbolic link", mode: "777", owner: me });
    expect(folder).toMatchObject({ type: "directory" });
    expect(fifo).toEqual({ type: "fifo", mode: "600", owner: me });
    expect(missing).toBeUndefined();
  });

  test("the probe reports every path that the globs match, also dangling links and hostile names", () => {
    using host = new ShellHost();
    const names = ["owned-a", 'owned-"b', "owned-c\nd", "owned-e *"];
    for (const name of names) writeFileSync(join(host.etc, name), "");
    symlinkSync("nowhere", join(host.etc, "owned-link"));
    writeFileSync(join(host.etc, "other"), "");
    const { owned } = host.see(probed(host, []));
    expect([...owned].sort()).toEqual([...names, "owned-link"].map((name) => join(host.etc, name)).sort());
  });
});

describe("the stamp file", () => {
  test("the probe reports its first line as the stamp, and the rest as what was applied", () => {
    using host = new ShellHost();
    const layer = daemonLayer(host, { "pg-one": { text: "x", mode: "0644" } });
    expect(host.see(layer).stamp).toBeUndefined();
    expect(host.apply(layer, "0123456789ab").status).toBe(0);
    const seen = host.see(layer);
    expect(seen.stamp).toBe("0123456789ab");
    expect(seen.applied).toHaveLength(2);
    expect(seen.applied[0]).toBe(`file ${sha256("x")} 644 ${me} ${host.etc}/pg-one`);
  });

  test.each(['"', "a\u001b[2J", "`id`", "\\", "\u00e9"])(
    "the probe reports a stamp with characters that apply.sh never writes as invalid: %j",
    (text) => {
      using host = new ShellHost();
      mkdirSync(join(host.state, "stamps"), { recursive: true });
      writeFileSync(join(host.state, "stamps/x"), text);
      expect(host.see(probed(host, [])).stamp).toBe("invalid");
    },
  );

  test("the probe reports a folder, a fifo or a link in its place as invalid", () => {
    using host = new ShellHost();
    const stamp = join(host.state, "stamps/x");
    mkdirSync(stamp, { recursive: true });
    expect(host.see(probed(host, [])).stamp).toBe("invalid");
    spawnSync("rmdir", [stamp]);
    spawnSync("mkfifo", [stamp]);
    expect(host.see(probed(host, [])).stamp).toBe("invalid");
    spawnSync("ln", ["-sfn", "/dev/zero", stamp]);
    expect(host.see(probed(host, [])).stamp).toBe("invalid");
  });
});

describe("facts", () => {
  test("the probe reports trimmed output and exit status, and no standard error", () => {
    using host = new ShellHost();
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

  test("no fact breaks the answer", () => {
    using host = new ShellHost();
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

  test("a layer with hundreds of facts is read by several shells, each text short enough for one argument", () => {
    using host = new ShellHost();
    const facts = Array.from({ length: 400 }, (_, index) => ({
      name: "f",
      read: `echo ${index}; : ${"x".repeat(1_000)}`,
    }));
    const layer = { ...probed(host, []), script: `echo noise\n${"# a comment\n".repeat(2_000)}`, facts };
    const texts = probeScript([layer]).split("\nfacts_of ").slice(1);
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThan(128 << 10);
    expect(host.see(layer).facts.map((fact) => fact?.output)).toEqual(facts.map((_, index) => String(index)));
  });

  test("a hundred facts with long output stay rows of their own", () => {
    using host = new ShellHost();
    const reads = Array.from({ length: 100 }, (_, index) => `printf '%02000d' ${index}`);
    const { facts } = host.see(probed(host, reads));
    expect(facts.map((fact) => Number(fact?.output))).toEqual(reads.map((_, index) => index));
  });
});

describe("the answer", () => {
  test("the probe reports what preflight reads", () => {
    using host = new ShellHost();
    const { system, listeners } = host.report([]);
    expect(system.uid).toEqual({ output: String(process.getuid?.()), status: 0 });
    expect(system.free?.output.split("\n")).toHaveLength(3);
    expect(system.pid1?.output).not.toBe("");
    expect(["enforced", "absent", "unknown"]).toContain(system.bpf?.output);
    expect(listeners.every(({ port }) => port > 0 && port < 65_536)).toBe(true);
  });

  test("the probe of 8 layers, 32 files and 32 facts takes under a second", () => {
    using host = new ShellHost();
    const layers: Probed[] = Array.from({ length: 8 }, (_, l) => ({
      name: `layer-${l}`,
      files: Array.from({ length: 4 }, (_, f) => {
        const path = join(host.etc, `l${l}-${f}`) as `/${string}`;
        writeFileSync(path, "a line of text\n".repeat(200));
        return { path };
      }),
      owns: [`${host.etc}/l${l}-*`],
      facts: Array.from({ length: 4 }, (_, f) => ({ name: "lines", read: `wc -l <${host.etc}/l${l}-${f}` })),
    }));
    // 0.19 s on two quiet cores. The best of several, and a second: other tests run beside this one.
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 8 && best > 1_000; round++) {
      const started = performance.now();
      const { layers: seen } = host.report(layers);
      best = Math.min(best, performance.now() - started);
      expect(Object.values(seen).flatMap(({ facts }) => facts.map((fact) => fact?.output))).toEqual(
        Array(32).fill("200"),
      );
    }
    expect(best).toBeLessThan(1_000);
  });

  test("the probe changes nothing", () => {
    using host = new ShellHost();
    const layer = daemonLayer(host, { "pg-one": { text: "x", mode: "0644" } });
    const before = host.tree(host.root);
    host.report([layer]);
    expect(host.tree(host.root)).toEqual(before);
  });

  test("parseProbe rejects an answer that was cut, or that a login shell printed into", () => {
    using host = new ShellHost();
    const { stdout } = host.run(probeScript([probed(host, ["echo x"])], host.state));
    expect(() => parseProbe(stdout, ["x"])).not.toThrow();
    for (const answer of [stdout.slice(0, -5), `Welcome!\n${stdout}`, "", '{"pushgate":1,"rows":[]}', "[]"])
      expect(() => parseProbe(answer, ["x"])).toThrow(/probe's answer/);
    expect(() => parseProbe("Welcome!\u001b[2J", ["x"])).toThrow(/login shell.*silent/);
    expect(() => parseProbe(stdout.replace('["end"]', '["fact","x",0,"0","eA=="],["end"]'), ["x"])).toThrow(/shape/);
  });
});

describe("a script that is sent", () => {
  test("the shell reads any quoted text unchanged", () => {
    using host = new ShellHost();
    void fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
        fc.pre(!text.includes("\0") && text.isWellFormed());
        const { stdout } = host.run(`printf %s ${quote(text)}\n`);
        expect(stdout).toBe(text);
      }),
      { seed: 1, numRuns: 40 },
    );
  });

  test("a script that is cut anywhere runs nothing", () => {
    using host = new ShellHost();
    const layer = daemonLayer(host, { "pg-one": { text: "it's\n", mode: "0644" } });
    const probing = probeScript([layer], host.state);
    const applying = applyScript(layer, "0123456789ab", host.state);
    const before = host.tree(host.root);
    for (const script of [probing, applying]) {
      const ends = [...script.matchAll(/\n/g)].map(({ index }) => index + 1).filter((end) => end < script.length);
      const last = script.trimEnd().lastIndexOf("\n") + 1;
      const cuts = [...ends.filter((_, n) => n % 25 === 0), ...ends.slice(-4), last, last + 2, script.length - 30];
      for (const cut of cuts.filter((end) => end <= last + 2)) {
        const { stdout } = host.run(script.slice(0, cut));
        expect(stdout).toBe("");
        expect(host.tree(host.root)).toEqual(before);
      }
    }
  });

  const file = { path: "/etc/pushgate/a", text: "", mode: "0644", owner: "root:root" } as const;
  const whole = {
    name: "x",
    files: [file],
    owns: [],
    facts: [],
    activate: ":",
    retire: ":",
    present: true,
    timeout: 60,
  };

  test.each([
    ["NUL", { ...whole, script: "\0" }],
    ["NUL", { ...whole, reactivate: "\0" }],
    ["NUL", { ...whole, retire: "\0" }],
    ["NUL", { ...whole, files: [{ ...file, check: "\0" }] }],
    ["NUL", { ...whole, facts: [{ name: "f", read: "\0", want: "" }] }],
    ["NUL", { ...whole, files: [{ ...file, text: "a\0b" }] }],
    ["NUL", { ...whole, activate: "\0" }],
    ["longer than 2048", { ...whole, facts: [{ name: "f", read: "x", want: "x".repeat(2049) }] }],
  ])("applyScript throws on a text that no host could confirm or run: %s", (says, layer) => {
    expect(() => applyScript(layer, "0123456789ab")).toThrow(`layer ${layer.name}: `);
    expect(() => applyScript(layer, "0123456789ab")).toThrow(says);
  });

  test("applyScript accepts what is at each bound, and throws on an input with a NUL character", () => {
    const script =
      (layer: Parameters<typeof applyScript>[0], input = "") =>
      () =>
        applyScript(layer, "0123456789ab", undefined, input);
    const fact = { name: "f", read: "x", want: "x".repeat(2048) };
    expect(script({ ...whole, facts: [fact] })).not.toThrow();
    expect(script(whole, "a\0b")).toThrow("NUL");
  });

  test("probeScript sends a script with the facts of its layer alone", () => {
    const facts = [{ name: "f", read: "looked", want: "" }];
    const [one, two] = [
      { ...whole, script: "with-facts" },
      { ...whole, facts, script: "used" },
    ];
    expect(probeScript([one])).not.toContain("with-facts");
    expect(probeScript([one])).toContain("\nfacts() {\n:\n}\n");
    const text = (script: string) =>
      `\nfacts_of ${quote(`{ :\n${script}\n} >/dev/null\nfact 'fact' 'x' '0' 'looked'`)}\n`;
    expect(probeScript([two])).toContain(text("used"));
    expect(probeScript([{ ...whole, facts }])).toContain(text(""));
  });
});
