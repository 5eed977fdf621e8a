/** A layer that had another name in an earlier version: the host keeps its stamp until the next apply. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { appliedHost, before, daemonLayer, type ShellHost, stamps } from "./shell-host.ts";

const stampsOn = (host: ShellHost) => readdirSync(join(host.state, "stamps")).sort();
const renamed = (host: ShellHost) => {
  const { name, ...layer } = daemonLayer(host, before);
  return { ...layer, name: "renamed", formerly: name };
};

test("the probe reads the stamp under the former name, so a renamed layer is in sync", () => {
  using host = appliedHost();
  const layer = renamed(host);
  const seen = host.see(layer);
  expect(seen.stamp).toBe(stamps.former);
  expect(reconcile(layer, seen)).toMatchObject({ inSync: true, drift: [] });
  // Without the former name the same host reads as if the last apply had not ended.
  const { formerly: _, ...forgetful } = layer;
  expect(reconcile(forgetful, host.see(forgetful)).drift[0]).toMatch(/^no stamp/);
});

test("the next apply leaves the stamp under the new name only", () => {
  using host = appliedHost();
  const layer = renamed(host);
  expect(stampsOn(host)).toEqual([layer.formerly]);
  expect(host.apply(layer, stamps.next).status).toBe(0);
  expect(stampsOn(host)).toEqual(["renamed"]);
});

test("the removal of a renamed layer removes its former stamp", () => {
  using host = appliedHost();
  const layer = { ...renamed(host), present: false, files: [], facts: [], activate: ":" };
  expect(host.apply(layer, `absent-${stamps.next}`).status).toBe(0);
  expect(stampsOn(host)).toEqual(["renamed"]);
});
