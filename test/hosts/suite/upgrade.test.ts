/**
 * The program takes over the host and the state of each released version: `up` rejects no delivery meanwhile, and creates,
 * deletes and replaces nothing (decision 017). At last the host is installed anew. What preview reads of a later version is in
 * test/infra/apply/reconcile.test.ts, and its warning in test/infra/host/preflight.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { version } from "../../../infra/apply/version.ts";
import { succeeded } from "../../engine/program-stack.ts";
import { secrets } from "../../fixtures.ts";
import { bootHost } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { releasedVersions, releasedWorld } from "../released.ts";
import { repeatWhile } from "../repeat-while.ts";

describe.each(releasedVersions())("from %s", (released) => {
  let { world, host } = {} as Awaited<ReturnType<typeof releasedWorld>>;
  beforeAll(async () => {
    ({ world, host } = await releasedWorld(released));
  });
  afterAll(async () => {
    await world?.close();
    await host?.kill();
  });

  test("no delivery is rejected while up brings the host to the present version, and nothing is made anew", async () => {
    expect(await world.deliver()).toMatchObject({ status: 202 });
    const preview = await world.stack.preview();
    const docs = { hook: "docs", secret: secrets.docs.current, source: actors.gitlab.v4[0] };
    const { done: up, seen } = await repeatWhile(
      () => world.stack.up(),
      async () => [await world.deliver(), await world.deliver(docs)],
    );
    expect(up.code, up.stdout).toBe(0);
    for (const { steps } of [preview, up]) expect(steps.filter(({ op }) => op !== "update")).toEqual([]);
    expect(seen.flat().filter(({ status }) => status !== 202)).toEqual([]);
    expect(seen.length).toBeGreaterThan(5);
    await world.stack.cleanPreview();
    const { stdout } = await world.stack.pushgate("status", "--json");
    const { hosts, ...more } = JSON.parse(stdout);
    expect(more).toMatchObject({ version, faults: [] });
    for (const applied of hosts[0].versions) expect([released, version]).toContain(applied);
  });

  test("up restores a host that was installed anew, with another SSH host key and another key for credentials", async () => {
    const keys = () => host.read("sha256sum /etc/ssh/ssh_host_ed25519_key /var/lib/systemd/credential.secret");
    const former = (await keys()).split("\n");
    await host.kill();
    host = await bootHost({ name: host.name, release, variant: "packages" });
    succeeded(await world.stack.up());
    for (const sum of (await keys()).split("\n")) expect(former).not.toContain(sum);
    expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    await world.stack.cleanPreview();
  });
});
