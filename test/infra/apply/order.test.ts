/**
 * The order in which apply.sh brings a layer to the disk: what a line promises is synced before the next one relies on
 * it. `soak -- --rebuild` cuts the power at each of these calls.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { after, copiedHost, daemonLayer, type ShellHost, stamps } from "./shell-host.ts";

/** Calls that sync, and that change names in etc and of the layer's state; the first word of `activate` is its own. */
const calls = (host: ShellHost, layer: HostLayer, stamp: string): string[] => {
  const list = join(host.root, "calls");
  rmSync(list, { force: true });
  host.watchedApply(host.script({ ...layer, facts: [] }, stamp), `echo "$tool $*" >>${list}`);
  return readFileSync(list, "utf8")
    .replaceAll(`${host.root}/`, "")
    .replaceAll("var/pushgate/", "STATE/")
    .replaceAll(/ (--one-file-system|--|-r?fT?|-m 0755)(?= )/g, "")
    .split("\n")
    .filter((line) => /^(sync|mkdir (etc|\.)|rmdir \.)|^(mv|rm) (etc|STATE\/(?!work))/.test(line))
    .filter((line) => !/^rm \S+pushgate-new$/.test(line));
};

const noted = [
  "sync STATE/work/temps",
  "sync STATE/made",
  "mkdir etc/pg.d/sub",
  "sync etc/.pg-one.pushgate-new etc/pg.d/sub/.four.pushgate-new",
  "rm STATE/stamps/daemon",
  "sync STATE/pending/daemon STATE/pending STATE/stamps",
];
const installed = [
  "mv etc/.pg-one.pushgate-new etc/pg-one",
  "mv etc/pg.d/sub/.four.pushgate-new etc/pg.d/sub/four",
  "rm etc/pg.d/three",
  "sync etc etc/pg.d etc/pg.d/sub",
];
const stamped = [
  "sync STATE/stamps/.daemon.new",
  "rm STATE/stamps/daemon",
  "mv STATE/stamps/.daemon.new STATE/stamps/daemon",
  "sync STATE/stamps",
];
const pruned = ["sync STATE/made.new", "mv STATE/made.new STATE/made"];
const activate = "sync activate || :";

test("apply.sh syncs each thing before it relies on it, where a layer arrives and leaves", () => {
  using host = copiedHost();
  expect(calls(host, { ...daemonLayer(host, after), activate }, stamps.next)).toEqual([
    ...noted,
    ...installed,
    "sync activate",
    ...stamped,
    "rm STATE/pending/daemon",
    ...pruned,
  ]);
  expect(calls(host, { ...daemonLayer(host, {}, false), activate }, "absent-0.1.0-0123456789ab")).toEqual([
    ...stamped,
    "rm STATE/pending/daemon",
    "rm etc/pg-one",
    "rm etc/pg.d/sub",
    "rm etc/pg.d/sub/four",
    "sync etc etc/pg.d",
    "rmdir ./pg.d",
    ...pruned,
    "rm STATE/made",
    "sync activate",
    ...stamped,
  ]);
});

test("apply.sh syncs each former file before it restores it", () => {
  using host = copiedHost();
  expect(calls(host, { ...daemonLayer(host, after), activate: "sync activate; exit 1" }, stamps.next)).toEqual([
    ...noted,
    ...installed,
    "sync activate",
    "sync etc/.pg-one.pushgate-new",
    "mv etc/.pg-one.pushgate-new etc/pg-one",
    "rm etc/pg.d/sub/four",
    "sync etc/pg.d/.three.pushgate-new",
    "mv etc/pg.d/.three.pushgate-new etc/pg.d/three",
    "rmdir ./sub",
    ...pruned,
  ]);
});
