/**
 * A host that is down while the others are applied. A host that is removed from the configuration, and a destroy, while
 * pushgate is still on it: both are rejected.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rulesOf } from "../fakes/cloudflare/zone.ts";
import { stackFile } from "../fixtures.ts";
import type { Run } from "./engine.ts";
import { itemsOf, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let w: ProgramStack;
const [first] = stackFile["pushgate:hosts"];
const host = (n: number) => ({
  ...{ ...first!, name: `web${n}`, ssh: `root@web${n}.example.org`, hostname: `hooks${n}.example.org` },
  ...{ address: `203.0.113.1${n}`, address6: `2001:db8::1${n}` },
});
const [second, third] = [host(2), host(3)];
const declare = (...hosts: object[]) => w.stack.configure({ "pushgate:hosts": hosts });
const records = () => w.api.zone.dns_records.map(({ name }) => name);
const rejected = (run: Run, reason: RegExp): void => {
  expect(run.code).not.toBe(0);
  expect(run.stdout).toMatch(reason);
};
const isDown = /web[24]: the host is unreachable; nothing was changed\. Start it/;
const forgotten = /web2 would keep all of pushgate\. .* `state: absent`, .* `state: lost`/;

beforeAll(async () => {
  w = await programStack();
  w.ssh.keyed();
  declare(first!, second, third);
  succeeded(await w.stack.up());
});
afterAll(() => w?.close());
test("up with a host that is down finishes the others and Cloudflare, keeps all that the state has of it, fails and names it", async () => {
  // Each run encrypts secrets anew, and the first refresh drops the validity, which the API does not return.
  const ofSecond = async () =>
    (await w.stack.resources())
      .filter(({ urn }) => /::(web2|hooks2\b)/.test(urn))
      .map(({ urn, inputs }) =>
        JSON.stringify({ urn, inputs }).replace(/"ciphertext":"[^"]*"|,"requestedValidity":5475/g, ""),
      )
      .sort();
  const before = await ofSecond();
  w.ssh.down(second.ssh);
  const rule = () => rulesOf(w.api.zone, "http_request_firewall_custom")[0]!;
  rule().enabled = false;
  const preview = await w.stack.preview();
  const audit = await w.stack.pushgate("audit", "--json");
  const up = await w.stack.up("--skip-preview=false");
  expect([preview.code, audit.code, up.code]).toEqual([0, 1, 1]);
  expect(itemsOf(audit)).toContainEqual(expect.objectContaining({ host: "web2", kind: "unreachable" }));
  for (const { stdout, steps } of [preview, up]) {
    expect(stdout).toMatch(isDown);
    const names = new Set(steps.map(({ name }) => name));
    expect([...names]).toEqual(expect.arrayContaining(["web1-packages", "web1-client-ca", "custom rules"]));
    expect([...names].filter((name) => /web2|hooks2/.test(name))).toEqual(["web2 is down"]);
  }
  expect(up.stdout).toContain("web1: applied packages, ");
  expect(up.stdout).not.toContain("web2: applied");
  expect(rule().enabled).toBe(true);
  expect(await ofSecond()).toEqual(before);
});

test("a host that is down changes nothing anywhere if no other answers, if it is to be removed or was never applied", async () => {
  const fourth = host(4);
  w.ssh.down(fourth.ssh);
  for (const hosts of [[second], [first!, { ...second, state: "absent" }], [first!, fourth]]) {
    declare(...hosts);
    const up = await w.stack.up();
    rejected(up, isDown);
    expect(up.steps).toEqual([]);
  }
  declare(first!, second, third);
  rmSync(join(w.folder, second.ssh));
  expect(succeeded(await w.stack.up()).stdout).toContain("web2: applied packages, ");
  expect((await w.stack.resources()).filter(({ urn }) => urn.endsWith(" is down"))).toEqual([]);
});

test("a host removed from the list is an error in preview and up, which name both ways out, and nothing is deleted", async () => {
  declare(first!, third);
  rejected(await w.stack.preview(), forgotten);
  // Without its preview: what is deleted comes after what is changed, and the lock is deleted first.
  rejected(await w.stack.up(), forgotten);
  expect(records()).toContain("hooks2.example.org");
});

test("destroy --run-program is rejected while a host is present, and names it", async () => {
  declare(first!, second, third);
  const before = structuredClone(w.api.zone);
  rejected(await w.stack.destroy("--run-program"), /web[123] would keep all of pushgate\. .* `state: absent`/);
  expect(w.api.zone).toStrictEqual(before);
});

test("after `state: absent` the host can be removed from the list, and a lost one too", async () => {
  declare(first!, { ...second, state: "absent" }, { ...third, state: "lost" });
  succeeded(await w.stack.up());
  declare(first!);
  succeeded(await w.stack.up());
  expect(new Set(records())).toEqual(new Set(["hooks.example.org"]));
  succeeded(await w.stack.preview());
});
