/** apply.sh with the real shell: layers arrive, are rejected, fail and leave. */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { HostFact, HostLayer } from "../../../infra/apply/layer.ts";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import {
  after,
  appliedHost,
  asDeclared,
  before,
  copiedHost,
  daemonLayer,
  me,
  ShellHost,
  stampOf,
  stamps,
} from "./shell-host.ts";

const { former: stamp, next } = stamps;
/** Where no test makes another one. */
let host: ShellHost;
beforeEach(() => {
  host = copiedHost();
});
afterEach(() => host[Symbol.dispose]());

test("apply installs files, the daemon loads the changed ones, the stamp is valid; it prints what activate does", () => {
  using host = appliedHost();
  expect(asDeclared(host, before, true, [])).toBe(true);
  expect(stampOf(host)).toBe(stamp);
  const report = `${host.root}/changed`;
  const layer = daemonLayer(host, after);
  const activate = `printf %s "$changed" >${report}\n${layer.activate}\necho printed`;
  expect(host.apply({ ...layer, activate }, next)).toMatchObject({ status: 0, stdout: "printed\n" });
  const changed = ["pg-one", "pg.d/sub/four", "pg.d/three"].map((name) => join(host.etc, name));
  expect(readFileSync(report, "utf8").split("\n").sort()).toEqual(["", ...changed.sort()]);
  expect(asDeclared(host, after, true, [])).toBe(true);
  expect(existsSync(join(host.state, "work"))).toBe(false);
});

test("the shell of a layer gets more changed paths than a variable of the environment holds, and goes on where its reader is gone", () => {
  const read = (path: string) => readFileSync(new URL(`../../../infra/${path}`, import.meta.url), "utf8");
  const [, take = ""] = /^take_changed='(.*?)'$/ms.exec(read("apply/apply.sh"))!;
  const paths = `/etc/${"x".repeat(200)}\n`.repeat(1_000);
  const shell = `layer=x\n${read("host/common.sh")}\n${take}\nsay lost; echo "\${#changed}"; cat`;
  const run = spawnSync("sh", ["-ec", `exec 2>/dev/full\n${shell}`], {
    input: `${paths}\nits input`,
    encoding: "utf8",
  });
  expect(run.stdout).toBe(`${paths.length}\nits input`);
});

test("apply does not write an unchanged file again, and restores the mode of one whose text is as declared", () => {
  const stat = (name: string) => statSync(join(host.etc, name));
  const { ino } = stat("pg-one");
  chmodSync(join(host.etc, "pg.d/three"), 0o666);
  expect(host.apply(daemonLayer(host, before), next).status).toBe(0);
  expect(stat("pg-one").ino).toBe(ino);
  expect(stat("pg.d/three").mode & 0o7777).toBe(0o600);
});

test("a check sees the new file under its own name, with its siblings beside it", () => {
  using host = new ShellHost();
  const layer = daemonLayer(host, before);
  const check = `[ "\${1##*/}" = three ] && cat "\${1%/*}/../pg-one" "$staged${host.etc}/pg-one" | grep -c one | grep -qx 2`;
  const files = layer.files.map((file) => (file.path.endsWith("three") ? { ...file, check } : file));
  expect(host.apply({ ...layer, files }, stamp)).toMatchObject({ status: 0 });
});

test("apply replaces a link at a file's place or at its temporary name, and does not write through it", () => {
  const target = join(host.root, "elsewhere");
  writeFileSync(target, "elsewhere");
  rmSync(join(host.etc, "pg-one"));
  for (const name of ["pg-one", ".pg-one.pushgate-new"]) symlinkSync(target, join(host.etc, name));
  expect(host.apply(daemonLayer(host, before), next).status).toBe(0);
  expect(readFileSync(target, "utf8")).toBe("elsewhere");
  expect(asDeclared(host, before, true, [])).toBe(true);
});

test("apply waits for a daemon that settles within two seconds", () => {
  using host = new ShellHost();
  const layer = daemonLayer(host, before);
  const activate = `( sleep 0.7; changed="$changed" sh -c '${layer.activate.replaceAll("'", "'\\''")}' ) >/dev/null 2>&1 &`;
  expect(host.apply({ ...layer, activate }, stamp)).toMatchObject({ status: 0, stderr: "" });
});

describe("a rejected layer changes nothing", () => {
  test("if a check fails, and the error names layer, file, the parser's output and a fix", () => {
    const tree = host.tree(host.root);
    const rejected = { text: "REJECTED", mode: "0644" } as const;
    const { status, stderr, stdout } = host.apply(daemonLayer(host, { ...after, "pg-one": rejected }), next);
    expect([status, stdout]).toEqual([1, ""]);
    const says = `pushgate: daemon: failed at: check of ${host.etc}/pg-one\n  line 1: REJECTED in pg-one\npushgate: daemon: fix: `;
    for (const text of [says, "nothing was changed"]) expect(stderr).toContain(text);
    expect(host.tree(host.root)).toEqual(tree);
  });

  test("and no name or text of others speaks in pushgate's voice or moves a cursor, and would without the rule", () => {
    const forged = "x\npushgate: daemon: fix: run x \u001b[2J";
    const [layer, common] = [daemonLayer(host, after), new URL("../../../infra/host/common.sh", import.meta.url)];
    const forgeries: readonly Partial<HostLayer>[] = [
      { files: layer.files.map((file) => ({ ...file, check: `printf '%s' '${forged}'; false` })) },
      { script: `layer=pushgate\n${readFileSync(common, "utf8")}`, activate: `say '${forged}'` },
      { owns: [`${host.etc}/stray-*`] },
    ];
    mkdirSync(join(host.etc, `stray-${forged.replace("/", "")}`));
    const rules = /LC_ALL=C tr -c [^;]*|sed 's\/\^\[\^ \]\/ {2}&\/'/g;
    const isForged = (script: string) => /^pushgate: daemon: fix: run x|\u001b/m.test(host.run(script).stderr);
    const scripts = forgeries.map((forgery) => host.script({ ...layer, facts: [], ...forgery }, next));
    expect(scripts.map(isForged)).toEqual([false, false, false]);
    expect(scripts.map((script) => isForged(script.replace(rules, "cat")))).toEqual([true, true, true]);
  });

  test("if a folder is in a file's place, or a file's owner does not exist", () => {
    const layer = daemonLayer(host, after);
    const tree = host.tree();
    const files = layer.files.map((file) => ({ ...file, owner: "missing-account:nogroup" }));
    const stderr = expect.stringContaining("the account missing-account:nogroup must exist");
    expect(host.apply({ ...layer, files }, next)).toMatchObject({ status: 1, stderr });
    expect(host.tree()).toEqual(tree);
    rmSync(join(host.etc, "pg-one"));
    mkdirSync(join(host.etc, "pg-one"));
    const says = /it is a folder, and declared is a file[\s\S]*move the folder away/;
    expect(host.apply(layer, next)).toMatchObject({ status: 1, stderr: expect.stringMatching(says) });
    expect(stampOf(host)).toBe(stamp);
  });
});

test("drop-ins of units go with their folder if it is empty then, and come back after a failed apply", () => {
  const folders = ["a.service.d", "b.timer.d", "emptied.slice.d", "conf.d"];
  const files = ["a.service.d/manual.conf", "b.timer.d/manual.conf", "b.timer.d/note.txt", "conf.d/pg.conf"];
  const kept = ["b.timer.d", "b.timer.d/note.txt", "conf.d", "neighbour.conf"];
  for (const [change, status, left] of [
    [{}, 0, kept],
    [{ present: false }, 0, kept],
    [{ activate: "false" }, 1, [...new Set([...files, ...kept, "a.service.d"])].sort()],
  ] as const) {
    using host = new ShellHost();
    for (const folder of folders) mkdirSync(join(host.etc, folder));
    for (const file of files) writeFileSync(join(host.etc, file), "x");
    const layer: HostLayer = {
      ...{ name: "units", files: [], facts: [], activate: ":", reactivate: ":", retire: ":", timeout: 60, ...change },
      owns: [...folders.slice(0, 3).map((folder) => `${host.etc}/${folder}/*.conf`), `${host.etc}/conf.d/pg.conf`],
    };
    expect(host.apply(layer, "present" in change ? `absent-${stamp}` : stamp).status).toBe(status);
    expect(readdirSync(host.etc, { recursive: true }).sort()).toEqual(left);
  }
});

describe("a failed apply", () => {
  const unmet = { name: "never", read: "echo not so; exit 4", want: "so" };
  test.each<[step: string, text: string, facts: HostFact[], says: RegExp]>([
    ["activate", "FATAL\n", [], /daemon: .*pg-one is fatal[\s\S]*failed at: activate/],
    ["confirming the facts", "1\n", [unmet], /\n {2}never: declared is "so", the host reports "not so" \(exit 4\)/],
  ])("at %s restores and activates the former files, and leaves no stamp", (step, text, facts, says) => {
    const layer = daemonLayer(host, { ...before, "pg-one": { text, mode: "0644" } });
    const { status, stderr } = host.apply({ ...layer, facts: [...layer.facts, ...facts] }, next);
    expect([status, stderr]).toEqual([1, expect.stringMatching(says)]);
    for (const text of [`failed at: ${step}`, "the former files are back and active"]) expect(stderr).toContain(text);
    expect(asDeclared(host, before, true, [])).toBe(true);
    expect(stampOf(host)).toBeUndefined();
  });

  const kept = ["pg-one", "pg-stray"];
  test.each<[step: string, left: string[], wrong: Partial<HostLayer>, tools?: string]>([
    ["before activate restores manual changes and activates nothing", kept, {}, "mv"],
    ["at activate leaves out manual changes, which may not have been in effect", [], {}],
    [
      "restores manual changes where the installed files do not activate",
      kept,
      { reactivate: "grep -q MANUAL $changed" },
    ],
  ])("%s", (_, left, wrong, tool = "none") => {
    const live = host.tree(host.live);
    for (const name of kept) writeFileSync(join(host.etc, name), "FATAL MANUAL\n");
    const once = `[ "$tool" != ${tool} ] || [ -e ${host.root}/once ] || { >${host.root}/once; exit 1; }`;
    const script = host.script({ ...daemonLayer(host, before), activate: "false", ...wrong }, next);
    const { status, stderr } = host.watchedApply(script, once);
    expect([status, stderr]).toEqual([1, expect.stringContaining("the former files are back and active")]);
    expect(host.tree().flatMap((line) => (line.includes("MANUAL") ? line.split(" ")[0] : []))).toEqual(left);
    expect(existsSync(join(host.etc, "pg-one"))).toBe(true);
    expect(host.tree(host.live)).toEqual(live);
  });

  test("of which the last did not finish restores the strays that it removed, and the link that was in a file's place", () => {
    rmSync(join(host.state, "stamps/daemon"));
    rmSync(join(host.etc, "pg-one"));
    symlinkSync("/etc/hostname", join(host.etc, "pg-one"));
    mkdirSync(join(host.etc, "pg-stray/inner"), { recursive: true });
    writeFileSync(join(host.etc, "pg-stray/inner/file"), "x");
    chmodSync(join(host.etc, "pg-stray"), 0o711);
    const tree = host.tree();
    const { status, stderr } = host.apply({ ...daemonLayer(host, after), activate: "false\ntrue" }, next);
    expect([status, stderr]).toEqual([1, expect.stringContaining("failed at: activate")]);
    expect(host.tree()).toEqual(tree);
  });

  test("reports that the former state is not complete if the restore fails, too", () => {
    const layer = { ...daemonLayer(host, after), activate: "false", reactivate: "echo stuck >&2; false" };
    expect(host.apply(layer, next).stderr).toMatch(/stuck[\s\S]*the former state is NOT complete/);
  });
});

test("retire runs before the files are removed, and no file or folder of the layer stays", () => {
  using host = new ShellHost();
  // Not made by an apply, so it stays.
  mkdirSync(join(host.etc, "pg.d"));
  const base = host.tree();
  host.apply(daemonLayer(host, after), stamp);
  const layer = daemonLayer(host, {}, false);
  const retire = `ls ${host.etc}/pg-one >&2 && ${layer.retire}`;
  const { status, stderr } = host.apply({ ...layer, retire }, `absent-${next}`);
  expect({ status, stderr }).toEqual({ status: 0, stderr: `${host.etc}/pg-one\n` });
  expect(host.tree()).toEqual(base);
  expect(host.tree(join(host.root, "var")).at(-1)).toBe(`pushgate/stamps/daemon 644 absent-${next}\n`);
  expect(host.tree(host.state)).toHaveLength(2);
});

test("a folder that apply made stays where another account has exchanged its path for a link, and would go by its path", () => {
  for (const by of ["folder", "path"]) {
    using host = copiedHost();
    const open = join(host.root, "open");
    mkdirSync(join(host.root, "victim/empty"), { recursive: true });
    mkdirSync(open);
    chmodSync(open, 0o777);
    symlinkSync(join(host.root, "victim"), join(open, "here"));
    appendFileSync(join(host.state, "made"), `${open}/here/empty\n`);
    const script = host.script(daemonLayer(host, {}, false), `absent-${next}`);
    const entering = '(cd -P -- "$above/" && [ "$(pwd -P)" = "${above:-/}" ] && rmdir -- "./${folder##*/}")';
    expect(script).toContain(entering);
    const text = by === "folder" ? script : script.replace(entering, 'rmdir -- "$folder"');
    expect(host.run(text).status).toBe(0);
    expect(existsSync(join(host.root, "victim/empty")), by).toBe(by === "folder");
  }
});

test.each([
  ["retire", { retire: "echo busy >&2; exit 7" }, true],
  // After the last file went.
  ["activate", { activate: "echo busy >&2; exit 7" }, false],
])("a removal that fails at %s is not in sync, although the one before left its stamp", (step, wrong, stays) => {
  const [layer, file] = [daemonLayer(host, {}, false), join(host.etc, "pg-one")];
  host.apply(layer, `absent-${stamp}`);
  writeFileSync(file, "back");
  const { status, stderr } = host.apply({ ...layer, ...wrong }, `absent-${next}`);
  expect([status, existsSync(file)]).toEqual([1, stays]);
  expect(stderr).toMatch(RegExp(`busy[^]*failed at: ${step}\n {2}exit 7[^]*the removal is not finished`));
  expect(reconcile(layer, host.see(layer)).inSync).toBe(false);
  expect(host.apply(layer, `absent-${next}`).status).toBe(0);
  expect(reconcile(layer, host.see(layer)).inSync).toBe(true);
});

test("the last of two layers in one folder removes the folder", () => {
  using host = new ShellHost();
  const base = host.tree();
  const apply = (name: string, present: boolean) => {
    const path = `${host.etc}/shared/${name}` as `/${string}`;
    const files = present ? [{ path, text: "x", mode: "0644", owner: me } as const] : [];
    const rest = { owns: [path], facts: [], activate: ":", retire: ":", timeout: 60 };
    host.apply({ name, present, files, ...rest }, present ? stamp : "absent");
  };
  // A layer that never came leaves nothing either.
  apply("c", false);
  apply("a", true);
  apply("b", true);
  apply("a", false);
  expect(host.tree()).toContain("shared/b 644 x");
  apply("b", false);
  expect(host.tree()).toEqual(base);
  expect(existsSync(host.state)).toBe(false);
});
