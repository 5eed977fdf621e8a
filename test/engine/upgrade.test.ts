/**
 * A stack that an earlier version of pushgate created, taken over by this one: resources have moved below components and
 * some have other names, and the engine must find each of them. `former/` holds such a stack as fbb6e9a left it: its
 * exported state (texts that were sent to the host are cut out), the zone at the fake Cloudflare, and the host's request.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ZoneState } from "../fakes/cloudflare/zone.ts";
import { findEngine, noEngine } from "./engine.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

const former = (name: string) => new URL(`former/${name}`, import.meta.url);
const state = readFileSync(former("state.json"), "utf8");

/** A stack of this version's program with the earlier version's state. */
async function takenOver(): Promise<ProgramStack> {
  const w = await programStack({
    starts: true,
    site: true,
    zone: JSON.parse(readFileSync(former("zone.json"), "utf8")) as ZoneState,
  });
  copyFileSync(former("request.pem"), join(w.folder, "csr"));
  w.ssh.keyed();
  const file = join(w.folder, "state.json");
  // The fake API listens on another port in each run.
  writeFileSync(file, state.replace(/http:\/\/127\.0\.0\.1:\d+\/client\/v4/g, w.api.url));
  const imported = await w.stack.pulumi("stack", "import", "--stack", "test", "--file", file);
  expect(imported.code, imported.stderr).toBe(0);
  return w;
}

type Exported = { deployment: { resources: { urn: string; id?: string; type: string }[] } };
const idsOf = (resources: Exported["deployment"]["resources"]): string[] =>
  resources
    .filter(({ type, id }) => id !== undefined && !type.startsWith("pulumi:providers:"))
    .map(({ id }) => id!)
    .sort();

test("`up` of this version keeps every resource of the earlier one: none is created, deleted or replaced", async ({
  skip,
  onTestFinished,
}) => {
  skip(!findEngine(), noEngine);
  const w = await takenOver();
  onTestFinished(w.close);
  const before = (JSON.parse(state) as Exported).deployment.resources;
  const up = await w.stack.up();
  expect(up.code, up.stdout).toBe(0);
  const others = up.steps.filter(({ op, type }) => op !== "update" && !type.startsWith("pushgate:index:"));
  // A lock of each host came later; it is in the state alone.
  expect(others.map(({ op, name }) => `${op} ${name}`)).toEqual(["create web1 lock"]);
  // Moved declarations change no object at Cloudflare.
  expect(up.steps.filter(({ type }) => type.startsWith("cloudflare:"))).toEqual([]);

  const after = await w.stack.resources();
  expect(idsOf(after as Exported["deployment"]["resources"])).toEqual(idsOf(before));
  const urns = after.map(({ urn }) => urn).join("\n");
  for (const name of ["bundle", "bundle-file", "program", "program-file", "keys", "certificate", "pulls"])
    expect(urns).not.toContain(`::web1-${name}\n`);
});
