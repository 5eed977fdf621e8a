/** reconcile for each kind of drift and change, and the diff of a preview. reconcile.slow.test.ts has walks over a host. */
import { describe, expect, test } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { factLine, fileLine, sha256 } from "../../../infra/apply/manifest.ts";
import { differences, type Reconciled, reconcile, unified } from "../../../infra/apply/reconcile.ts";
import type { SeenLayer } from "../../../infra/apply/report.ts";
import { sealed, version, versionsOf } from "../../../infra/apply/version.ts";
import { seenAsDeclared } from "./shell-host.ts";

const file = { path: "/etc/pushgate/a", text: "one\ntwo\n", mode: "0644", owner: "root:root" } as const;
const fact = { name: "unit x", read: "systemctl is-active x", want: "active", about: "x.service" };
const layer: HostLayer = {
  ...{ name: "x", files: [file], owns: ["/etc/pushgate/*"], facts: [fact] },
  ...{ activate: ":", retire: ":", present: true, timeout: 60 },
};
const asDeclared = seenAsDeclared(layer);
const stamp = asDeclared.stamp!;
const seenFile = asDeclared.files[file.path]!;
const texts = ({ drift }: Reconciled) => drift.map(({ text }) => text);
const never = () => expect.fail("the random value was used");

test.each([stamp, sealed("x", "0.0.9-01234567"), sealed("x", "99.0.0-01234567")])(
  "reconcile returns the stamp %s of a host that is as declared, whatever the status of the fact's program is",
  (stamp) => {
    const found = { ...asDeclared, stamp, facts: [{ output: "active", status: 3 }] };
    expect(reconcile(layer, found, never)).toEqual({ stamp, inSync: true, drift: [] });
  },
);

const seen = (change: object) => ({ files: { [file.path]: { ...seenFile, ...change } } });
const drifts: Record<string, Partial<SeenLayer>> = {
  "/etc/pushgate/a is missing": { files: {} },
  "/etc/pushgate/a is a symbolic link, not a file": {
    files: { [file.path]: { type: "symbolic link", mode: "777", owner: "root:root" } },
  },
  "/etc/pushgate/a is 600 root:root, declared is 644 root:root": seen({ mode: "600" }),
  "/etc/pushgate/a is 644 www-data:root, declared is 644 root:root": seen({ owner: "www-data:root" }),
  "/etc/pushgate/a has other contents (- on the host, + declared):\n  one\n- 2\n+ two": seen({
    ...{ sha256: sha256("one\n2\n"), text: "one\n2\n" },
  }),
  "/etc/pushgate/a has other contents, too long or not readable to show": {
    files: { [file.path]: { type: "regular file", mode: "644", owner: "root:root" } },
  },
  "/etc/pushgate/b is not declared and will be removed": { owned: [file.path, "/etc/pushgate/b"] },
  'unit x: declared is "active", the host reports "failed" (exit 3)': { facts: [{ output: "failed", status: 3 }] },
  "unit x: no answer: the shell that reads this layer's facts ended early, or took 30 seconds": { facts: [] },
};

describe("a manual change", () => {
  test.each(Object.entries(drifts))("%s", (says, change) => {
    const verdict = reconcile(layer, { ...asDeclared, ...change }, never);
    expect(verdict.inSync).toBe(false);
    expect(verdict.drift[0]?.text.trimEnd()).toBe(says);
    expect(verdict.stamp).toMatch(new RegExp(`^${version}-[0-9a-f]{12}$`));
  });

  test("each has its item, kind, and what is on the host and declared", () => {
    const found = Object.values(drifts).flatMap(
      (change) => reconcile(layer, { ...asDeclared, ...change }, never).drift,
    );
    expect(found.map(({ item, kind, before, after }) => [item, kind, before, after])).toEqual([
      [file.path, "missing", null, file.text],
      [file.path, "type", "symbolic link", "regular file"],
      [file.path, "mode", "600 root:root", "644 root:root"],
      [file.path, "mode", "644 www-data:root", "644 root:root"],
      [file.path, "contents", "one\n2\n", file.text],
      [file.path, "contents", null, file.text],
      ["/etc/pushgate/b", "undeclared", "exists", null],
      ["unit x", "fact", "failed", "active"],
      ["unit x", "fact", null, "active"],
    ]);
  });

  test("reconcile gives a stamp of its own for each, and none for the order of what is owned", () => {
    const changes = [{}, { facts: [] }, ...Object.values(drifts), { stamp: sealed("x", "0.1.0-ba987654"), facts: [] }];
    const given = changes.map((change) => reconcile(layer, { ...asDeclared, ...change }, never).stamp);
    // No answer to the one fact is among the drifts, too.
    expect(new Set(given).size).toBe(changes.length - 1);
    const strays = ["/etc/pushgate/b", "/etc/pushgate/c"];
    const [one, other, fewer] = [strays, strays.toReversed(), strays.slice(1)].map((owned) =>
      reconcile(layer, { ...asDeclared, owned }, never),
    );
    expect(one).toMatchObject({ inSync: false, stamp: other?.stamp });
    expect(fewer?.stamp).not.toBe(one?.stamp);
  });

  test("reconcile removes terminal controls from a file's text and name", () => {
    const text = "one\u001b[2J\u202e\n";
    const found = { ...asDeclared, ...seen({ text, sha256: sha256(text) }), owned: ["/etc/pushgate/\u001b]0;x\u0007"] };
    expect(texts(reconcile(layer, found, never)).join("")).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f\u202e]/);
  });
});

describe("a change of the program", () => {
  const newer = { ...layer, files: [{ ...file, text: "three\n" }], facts: [{ ...fact, want: "inactive" }] };

  test("reconcile gives a new stamp and no warning", () => {
    const verdict = reconcile(newer, asDeclared, never);
    expect(verdict).toMatchObject({ inSync: false, drift: [] });
    expect(verdict.stamp).not.toBe(stamp);
  });

  test("reconcile warns of a stray file, and not of a file that is no longer declared", () => {
    const other = "/etc/pushgate/old";
    const seen = { ...asDeclared, owned: [file.path, other] };
    expect(reconcile(layer, seen, never).drift).toHaveLength(1);
    const applied = [...seen.applied, fileLine({ ...file, path: other })];
    expect(reconcile(layer, { ...seen, applied }, never)).toMatchObject({ inSync: false, drift: [] });
  });

  test("reconcile reports no drift on a host that never had the layer", () => {
    const { stamp: _, ...bare } = { ...asDeclared, files: {}, owned: [], applied: [], facts: [] };
    expect(reconcile(layer, bare).drift).toEqual([]);
  });
});

describe("an invalid stamp", () => {
  const foreign = [
    ...["", stamp.toUpperCase(), `${stamp}c`, `${stamp}\n`, `absent-${stamp}`, "0.1.0-0123456789ab", "0123456789ab"],
    ...[sealed("x", "0.1-01234567"), seenAsDeclared({ ...layer, name: "y" }).stamp!],
  ];

  test.each(foreign)("reconcile replaces the stamp %j", (text) => {
    const verdict = reconcile(layer, { ...asDeclared, stamp: text }, () => "random");
    expect(verdict.inSync).toBe(false);
    expect(verdict.stamp).toMatch(new RegExp(`^${version}-[0-9a-f]{12}$`));
    expect(verdict.drift.map(({ text }) => text)).toEqual(["the stamp on the host is not valid"]);
  });

  const { stamp: _, ...stampless } = asDeclared;

  test("reconcile gives a new stamp for each of two deletions, and misses the second one without a random value", () => {
    expect(reconcile(layer, stampless).stamp).not.toBe(reconcile(layer, stampless).stamp);
    const same = () => "always the same";
    expect(reconcile(layer, stampless, same).stamp).toBe(reconcile(layer, stampless, same).stamp);
  });

  test("reconcile reports a missing stamp as an apply that did not finish, also where a file is missing", () => {
    expect(texts(reconcile(layer, stampless))).toEqual(["no stamp: the last apply did not finish"]);
    const two = { ...layer, files: [file, { ...file, path: "/etc/pushgate/b" as const }] };
    expect(texts(reconcile(two, stampless))[1]).toBe("/etc/pushgate/b is missing");
  });
});

describe("a layer that leaves", () => {
  const gone: HostLayer = { ...layer, present: false, files: [], facts: [] };
  const clean: SeenLayer = { name: "x", applied: [], files: {}, owned: [], facts: [] };

  test("reconcile gives the constant stamp on a host that never had the layer", () => {
    expect(reconcile(gone, clean, never)).toEqual({ stamp: "absent", inSync: true, drift: [] });
  });

  test("reconcile gives the removal a stamp of its own, and then keeps that stamp", () => {
    const verdict = reconcile(gone, asDeclared, never);
    expect(verdict).toMatchObject({ inSync: false, drift: [] });
    expect(verdict.stamp).toMatch(new RegExp(`^absent-${version}-[0-9a-f]{12}$`));
    expect(reconcile(gone, { ...clean, stamp: verdict.stamp }, never)).toMatchObject({ ...verdict, inSync: true });
  });

  test("reconcile reports each time that a file of the layer is back", () => {
    const back = { ...clean, owned: [file.path], stamp: `absent-${stamp}` };
    const verdict = reconcile(gone, back, never);
    expect(texts(verdict)).toEqual(["/etc/pushgate/a is back, though the layer was removed"]);
    expect(reconcile(gone, { ...back, stamp: verdict.stamp }, never).stamp).not.toBe(verdict.stamp);
  });

  test("reconcile removes it from a host that was restored from a backup, and continues a removal that was killed", () => {
    const others = [stamp, "removing", `absent-${stamp}c`, `absent-${stamp.toUpperCase()}`];
    for (const found of others) expect(reconcile(gone, { ...clean, stamp: found }).inSync).toBe(false);
    expect(reconcile(gone, { ...clean, stamp: "removing", owned: [file.path] }).drift).toEqual([]);
  });
});

test("of stamps each version comes once, the earliest first, by its numbers", () => {
  const stamps = ["0.10.0", "0.9.0", "0.10.0", "0.9.1"].map((version) => `${version}-0123456789ab`);
  expect(versionsOf([...stamps, undefined, "none"])).toEqual(["0.9.0", "0.9.1", "0.10.0"]);
});

test("a fact's difference has what it is about, and its text what was found, with its exit status where that is not 0", () => {
  const of = (output: string, want = "active") => {
    const applied = [fileLine(file), factLine(undefined, { ...fact, want })];
    const seen = { ...asDeclared, applied, facts: [{ output, status: 0 }] };
    return texts(reconcile({ ...layer, facts: [{ ...fact, want }] }, seen, never));
  };
  expect(differences(layer, { ...asDeclared, facts: [] })).toMatchObject([{ about: "x.service" }]);
  expect(of("failed")).toEqual(['unit x: declared is "active", the host reports "failed"']);
  expect(of("one\ntwo")).toEqual(["unit x: differs (- on the host, + declared):\n- one\n- two\n+ active"]);
  expect(of("one", "one\ntwo")).toEqual(["unit x: differs (- on the host, + declared):\n  one\n+ two"]);
});

test("a folder on the way to a declared file is no stray", () => {
  const file = { path: "/etc/pg/tls/ca.pem", text: "", mode: "0644", owner: "root:root" } as const;
  const owned = ["/etc/pg/tls", "/etc/pg/tls/ca.pem", "/etc/pg/tls.old", "/etc/pg/t"];
  const found = differences({ ...layer, files: [file], facts: [] }, { ...asDeclared, files: {}, owned });
  expect(found.map(({ path, what }) => [path, what.replace(/^\S+ /, "")])).toEqual([
    ["/etc/pg/tls/ca.pem", "is missing"],
    ["/etc/pg/tls.old", "is not declared and will be removed"],
    ["/etc/pg/t", "is not declared and will be removed"],
  ]);
});

test("unified shows each change with two lines around it, and marks omitted lines", () => {
  const lines = Array.from({ length: 12 }, (_, index) => `line ${index}`);
  const changed = lines.with(2, "new").toSpliced(10, 1);
  expect(unified(lines.join("\n"), changed.join("\n"))).toBe(
    "  line 0\n  line 1\n- line 2\n+ new\n  line 3\n  line 4\n  …\n  line 8\n  line 9\n- line 10\n  line 11",
  );
});

test("unified shows 40 lines whole, and 200 characters of a line", () => {
  const added = Array.from({ length: 40 }, (_, i) => `${i}`);
  const lines = unified("0", added.join("\n")).split("\n");
  expect(lines.slice(-2)).toEqual(["+ 38", "+ 39"]);
  expect(unified("a", "b".repeat(201))).toBe(`- a\n+ ${"b".repeat(200)}`);
});

test("unified compares two texts of 64 KiB within a second, and shows 40 lines of them as replaced", () => {
  const started = process.cpuUsage();
  const shown = unified("a\nb\n".repeat(16_384), "b\nc\n".repeat(16_384)).split("\n");
  // Of a core's time, which tests beside this one do not add to.
  const { user, system } = process.cpuUsage(started);
  expect(user + system).toBeLessThan(1_000_000);
  expect(shown.slice(0, 40).every((line) => line.startsWith("-"))).toBe(true);
  expect(shown.slice(40)).toEqual(["  … 65498 more lines"]);
});
