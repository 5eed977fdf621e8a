/**
 * A host with neighbours: a shop of the operator's own nginx on 443 with its own log, Docker, ufw, fail2ban and a policy
 * route. They are unchanged and serve before, during and after an `up` and a removal: the files of the operator's nginx
 * byte for byte, its process and its unit's state.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { bootHost, type Host } from "../lab/host.ts";
import { addNeighbours, type Neighbourhood, neighbourhood } from "../lab/neighbours.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { buildWorld, hostEntry, type World } from "../world.ts";

let host: Host;
let world: World;
let before: Neighbourhood;

/** The neighbours' state twice per second during an `up`, which succeeds; throws if the shop does not answer. */
async function watchedUp(): Promise<void> {
  const { done: up, seen: looks } = await repeatWhile(
    () => world.stack.up(),
    () => neighbourhood(host),
    500,
  );
  expect(up.code, up.stdout).toBe(0);
  expect(looks.length).toBeGreaterThan(1);
  for (const look of looks) expect(look).toEqual(before);
}

beforeAll(async () => {
  host = await bootHost({ name: "house", release, variant: "packages" });
  await addNeighbours(host);
  before = await neighbourhood(host);
  world = await buildWorld([host]);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

test("the neighbours serve before the first up", () => {
  expect(before.shop.v4).toMatch(/^200 the shop is open/);
  expect(before.shop.logged).toHaveLength(2);
  expect(before.nginx.unit).toMatch(/MainPID=[1-9]\d*\nActiveState=active\nUnitFileState=enabled/);
  expect(Object.keys(before.tables)).toEqual(expect.arrayContaining(["inet f2b-table", "ip filter", "ip nat"]));
  expect(before.rules.join("\n")).toContain("from 10.66.0.0/24 lookup 200");
});

test("up succeeds although the operator's configuration is broken, and the neighbours are unchanged all the time", async () => {
  // It would be read at the next reload or restart of that nginx.
  await host.writeFile("/etc/nginx/conf.d/half-done.conf", "server { listen\n");
  before = await neighbourhood(host);
  await watchedUp();
  await host.inside("rm /etc/nginx/conf.d/half-done.conf");
  before = await neighbourhood(host);
});

test("the receiver accepts a delivery despite ufw's default drop, and no neighbour's log has it", async () => {
  const log = () => host.read("cat /var/log/nginx/*.log");
  const lines = await log();
  for (const source of [actors.github.v4[0], actors.github.v6[0]])
    expect(await world.deliver({ source })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await log()).toBe(lines);
});

test("after up the neighbours are unchanged, and the audit is clean", async () => {
  expect(await neighbourhood(host)).toEqual(before);
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});

test("the removal leaves them unchanged all the time, and nothing of pushgate's nginx", async () => {
  world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  await watchedUp();
  expect(await neighbourhood(host)).toEqual(before);
  expect(
    await host.read(
      "getent passwd pushgate-nginx; ls -d /*/*/*pushgate-nginx* /etc/*/*/pushgate-nginx* 2>/dev/null || true",
    ),
  ).toBe("");
});
