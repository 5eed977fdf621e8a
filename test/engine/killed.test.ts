/**
 * The engine is killed during the first `up`, right after a write to Cloudflare: after what docs/operating.md says to type,
 * the next `up` finishes. test/hosts/rebuild/walk.ts kills it while it changes a host.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isWrite, type Seen } from "../fakes/cloudflare/api.ts";
import { patience } from "./engine.ts";
import { killEngine, locked, removeEmptyChecksum, unlock } from "./killed-engine.ts";
import { atCloudflare, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let w: ProgramStack;
beforeAll(async () => {
  w = await programStack({ site: true });
  w.ssh.keyed();
});
afterAll(() => w?.close());

/** Kills the engine when Cloudflare has got this many more writes. */
function killAt(write: number): void {
  let writes = 0;
  w.api.requests.push = (seen: Seen) => {
    if (isWrite(seen) && ++writes === write) {
      w.api.requests.push = Array.prototype.push;
      void killEngine(w.stack);
    }
    return Array.prototype.push.call(w.api.requests, seen);
  };
}

test("after kills of the engine cancel, adopt and up finish, and no object that is in use is there twice", {
  timeout: patience,
}, async () => {
  for (const write of [1, 3, 2]) {
    killAt(write);
    expect((await w.stack.up()).code).toBe(255);
    removeEmptyChecksum(w.stack);
    if (write === 1) expect((await w.stack.up()).stderr).toMatch(locked);
    await unlock(w.stack);
    succeeded(await w.stack.pushgate("adopt", "--yes"));
  }
  succeeded(await w.stack.up());
  const { rulesets, dns_records: records, origin_certificates: certificates, origin_pulls: pulls } = w.api.zone;
  expect([rulesets, records, certificates].map(({ length }) => length)).toEqual([3, 4, 1]);
  // One that a killed `up` made beside the one in its state is in no record: it stays, unused.
  expect(new Set(pulls.hostnames.map(({ cert_id }) => cert_id))).toEqual(
    new Set([pulls.hostname_certificates.at(-1)!.id]),
  );
  expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([]);
});

test("an empty checksum beside the state stops the engine, and the state is whole without it", async () => {
  const checksum = join(w.stack.folder, "state/.pulumi/stacks/pushgate/test.json.attrs");
  writeFileSync(checksum, "");
  const { code, stderr } = await w.stack.pulumi("stack", "export", "--stack", "test");
  expect(code).not.toBe(0);
  expect(stderr).toContain("error: failed to load checkpoint: EOF");
  rmSync(checksum);
  expect((await w.stack.resources()).length).toBeGreaterThan(20);
});
