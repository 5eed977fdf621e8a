import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import {
  after,
  asDeclared,
  before,
  daemonLayer,
  type Files,
  me,
  ShellMachine,
  stampOf,
  stamps,
  standing,
} from "./shell-host.ts";

const { former: stamp, next } = stamps;

describe("arriving", () => {
  test("files land with owner and mode, the daemon is told which changed, the stamp stands", () => {
    using machine = standing();
    expect(asDeclared(machine, before, true, [])).toBe(true);
    expect(stampOf(machine)).toBe(stamp);
    const told = `${machine.root}/told`;
    const layer = daemonLayer(machine, after);
    const { status } = machine.apply({ ...layer, activate: `printf %s "$changed" >${told}\n${layer.activate}` }, next);
    expect(status).toBe(0);
    const changed = ["pg-one", "pg.d/sub/four", "pg.d/three"].map((name) => join(machine.etc, name));
    expect(readFileSync(told, "utf8").split("\n").sort()).toEqual(changed.sort());
    expect(asDeclared(machine, after, true, [])).toBe(true);
    expect(existsSync(join(machine.state, "work"))).toBe(false);
  });

  test("what activate prints is all of standard output", () => {
    using machine = new ShellMachine();
    const layer = { ...daemonLayer(machine, before), retire: "echo no" };
    const activate = `${layer.activate}\necho "-----BEGIN-----"`;
    expect(machine.apply({ ...layer, activate }, stamp).stdout).toBe("-----BEGIN-----\n");
  });

  test("an unchanged file is not written again", () => {
    using machine = standing();
    const inode = () => statSync(join(machine.etc, "pg-one")).ino;
    const first = inode();
    machine.apply(daemonLayer(machine, { ...before, "pg-two": { text: "2", mode: "0644" } }), next);
    expect(inode()).toBe(first);
  });

  test("a candidate is checked with its siblings beside it, under its own name", () => {
    using machine = new ShellMachine();
    const layer = daemonLayer(machine, before);
    const check = `[ "\${1##*/}" = three ] && cat "\${1%/*}/../pg-one" "$staged${machine.etc}/pg-one" | grep -c one | grep -qx 2`;
    const files = layer.files.map((file) => (file.path.endsWith("three") ? { ...file, check } : file));
    expect(machine.apply({ ...layer, files }, stamp)).toMatchObject({ status: 0 });
  });

  test("a link where a file is declared is replaced, its target stays", () => {
    using machine = standing();
    const target = join(machine.root, "theirs");
    writeFileSync(target, "theirs");
    rmSync(join(machine.etc, "pg-one"));
    symlinkSync(target, join(machine.etc, "pg-one"));
    expect(machine.apply(daemonLayer(machine, before), next).status).toBe(0);
    expect(readFileSync(target, "utf8")).toBe("theirs");
    expect(asDeclared(machine, before, true, [])).toBe(true);
  });

  test("a link left where the new file is prepared is not written through", () => {
    using machine = standing();
    const target = join(machine.root, "theirs");
    writeFileSync(target, "theirs");
    symlinkSync(target, join(machine.etc, ".pg-one.pushgate-new"));
    expect(machine.apply(daemonLayer(machine, after), next).status).toBe(0);
    expect(readFileSync(target, "utf8")).toBe("theirs");
  });

  test("a live system changed by hand, the files as declared: activate is told that all is new", () => {
    using machine = standing();
    writeFileSync(join(machine.live, "pg-one"), "flushed");
    const layer = daemonLayer(machine, before);
    expect(machine.apply(layer, next).status).toBe(0);
    expect(asDeclared(machine, before, true, [])).toBe(true);
  });

  test("a daemon that settles within two seconds is waited for", () => {
    using machine = new ShellMachine();
    const layer = daemonLayer(machine, before);
    const activate = `( sleep 0.7; changed="$changed" sh -c '${layer.activate.replaceAll("'", "'\\''")}' ) >/dev/null 2>&1 &`;
    expect(machine.apply({ ...layer, activate }, stamp)).toMatchObject({ status: 0, stderr: "" });
  });
});

describe("refused, and nothing changed", () => {
  test("by a check: layer, file, what the parser said and a cure are named", () => {
    using machine = standing();
    const tree = machine.tree(machine.root);
    const { status, stderr, stdout } = machine.apply(
      daemonLayer(machine, {
        ...before,
        "pg-two": { text: "ok", mode: "0644" },
        "pg-one": { text: "REFUSED", mode: "0644" },
      }),
      next,
    );
    expect(status).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain(`pushgate: daemon: failed at: check of ${machine.etc}/pg-one`);
    expect(stderr).toContain("line 1: REFUSED in pg-one");
    expect(stderr).toContain("cure: ");
    expect(stderr).toContain("nothing was changed");
    expect(machine.tree(machine.root)).toEqual(tree);
    expect(stampOf(machine)).toBe(stamp);
  });

  test("by a folder where a file belongs", () => {
    using machine = standing();
    rmSync(join(machine.etc, "pg-one"));
    mkdirSync(join(machine.etc, "pg-one"));
    const { status, stderr } = machine.apply(daemonLayer(machine, before), next);
    expect(status).toBe(1);
    expect(stderr).toMatch(/a folder stands where a file is declared[\s\S]*move it away/);
    expect(stampOf(machine)).toBe(stamp);
  });

  test("by an account that is not there", () => {
    using machine = standing();
    const layer = daemonLayer(machine, after);
    const tree = machine.tree();
    const files = layer.files.map((file) => ({ ...file, owner: "nobody-of-this-name:nogroup" }));
    const { status, stderr } = machine.apply({ ...layer, files }, next);
    expect(status).toBe(1);
    expect(stderr).toContain("the account nobody-of-this-name:nogroup must exist");
    expect(machine.tree()).toEqual(tree);
  });
});

describe("failed after the change", () => {
  test.each([
    [
      "activate",
      { "pg-one": { text: "FATAL\n", mode: "0644" } } as Files,
      /daemon: .*pg-one is fatal[\s\S]*failed at: activate/,
    ],
    ["facts", after, /failed at: confirming the facts\n {2}never: wanted "so", the machine says "not so" \(exit 4\)/],
  ])("at %s: the former files are back and taken up, and no stamp says otherwise", (step, files, says) => {
    using machine = standing();
    const layer = daemonLayer(machine, { ...before, ...files });
    const facts = step === "facts" ? [{ name: "never", read: "echo not so; exit 4", want: "so" }] : [];
    const { status, stderr } = machine.apply({ ...layer, facts: [...layer.facts, ...facts] }, next);
    expect(status).toBe(1);
    expect(stderr).toMatch(says);
    expect(stderr).toContain("the former files are back and taken up");
    expect(asDeclared(machine, before, true, [])).toBe(true);
    expect(stampOf(machine)).toBeUndefined();
  });

  test("what was pruned and who stood in a file's place come back as they were", () => {
    using machine = standing();
    rmSync(join(machine.etc, "pg-one"));
    symlinkSync("/etc/hostname", join(machine.etc, "pg-one"));
    mkdirSync(join(machine.etc, "pg-stray/inner"), { recursive: true });
    writeFileSync(join(machine.etc, "pg-stray/inner/file"), "x");
    chmodSync(join(machine.etc, "pg-stray"), 0o711);
    const tree = machine.tree();
    const { status } = machine.apply({ ...daemonLayer(machine, after), activate: "false" }, next);
    expect(status).toBe(1);
    expect(machine.tree()).toEqual(tree);
  });

  test("a restore that fails too is not called a success", () => {
    using machine = standing();
    const layer = { ...daemonLayer(machine, after), activate: "false", restore: "echo stuck >&2; false" };
    expect(machine.apply(layer, next).stderr).toMatch(/stuck[\s\S]*the former state is NOT complete/);
  });

  test("activate stops at its first failing command", () => {
    using machine = standing();
    const layer = { ...daemonLayer(machine, after), activate: "false\ntrue", facts: [] };
    expect(machine.apply(layer, next).status).toBe(1);
  });
});

describe("leaving", () => {
  test("retire runs while the files stand, all of ours goes, folders we made too, nothing else", () => {
    using machine = new ShellMachine();
    const base = machine.tree();
    machine.apply(daemonLayer(machine, before), stamp);
    const layer = daemonLayer(machine, {}, false);
    const retire = `ls ${machine.etc}/pg-one >&2 && ${layer.retire}`;
    const { status, stderr } = machine.apply({ ...layer, retire }, `absent-${next}`);
    expect({ status, stderr }).toEqual({ status: 0, stderr: `${machine.etc}/pg-one\n` });
    expect(machine.tree()).toEqual(base);
    expect(machine.tree(machine.root).filter((line) => line.startsWith("var"))).toEqual([
      "var/ 755",
      "var/pushgate/ 755",
      "var/pushgate/stamps/ 755",
      `var/pushgate/stamps/daemon 644 absent-${next}\n`,
    ]);
  });

  test("a folder that was there before us, or that others use by now, stays", () => {
    using machine = new ShellMachine();
    mkdirSync(join(machine.etc, "pg.d"));
    machine.apply(daemonLayer(machine, after), stamp);
    machine.apply(daemonLayer(machine, {}, false), `absent-${next}`);
    expect(machine.tree()).toContain("pg.d/ 755");
    expect(machine.tree().join("\n")).not.toContain("sub");
  });

  test("a machine the layer never was on: nothing of it is left behind", () => {
    using machine = new ShellMachine();
    const tree = machine.tree(machine.root);
    expect(machine.apply(daemonLayer(machine, {}, false), "absent").status).toBe(0);
    expect(machine.tree(machine.root)).toEqual(tree);
  });

  test("a retire that fails keeps the files, and the next one goes on", () => {
    using machine = standing();
    const layer = daemonLayer(machine, {}, false);
    const { status, stderr } = machine.apply({ ...layer, retire: "echo busy >&2; exit 7" }, `absent-${next}`);
    expect(status).toBe(1);
    expect(stderr).toMatch(/busy[\s\S]*failed at: retire\nexit 7[\s\S]*the removal is not finished/);
    expect(existsSync(join(machine.etc, "pg-one"))).toBe(true);
    expect(reconcile(layer, machine.see(layer)).inSync).toBe(false);
    expect(machine.apply(layer, `absent-${next}`).status).toBe(0);
  });

  test("two layers in one folder: the last to leave takes it along", () => {
    using machine = new ShellMachine();
    const base = machine.tree();
    const named = (name: string, file: string, present: boolean): HostLayer => ({
      name,
      present,
      files: present
        ? [{ path: `${machine.etc}/shared/${file}` as `/${string}`, text: "x", mode: "0644", owner: me }]
        : [],
      owns: [`${machine.etc}/shared/${file}`],
      facts: [],
      activate: ":",
      retire: ":",
      timeout: 60,
    });
    machine.apply(named("first", "a", true), stamp);
    machine.apply(named("second", "b", true), stamp);
    machine.apply(named("first", "a", false), "absent");
    expect(machine.tree()).toContain("shared/b 644 x");
    machine.apply(named("second", "b", false), "absent");
    expect(machine.tree()).toEqual(base);
    expect(existsSync(machine.state)).toBe(false);
  });
});
