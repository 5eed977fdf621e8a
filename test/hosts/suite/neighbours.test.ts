/**
 * A machine where others live: a shop on 443 with its own log, Docker, ufw, fail2ban and somebody's policy route. They
 * are the same and serve before, during and after an `up`, also one that fails: the machine's nginx may not hold
 * CAP_NET_RAW, which `nginx -t` does not see and every site dies of.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { addNeighbours, type Neighbourhood, neighbourhood, visitShop } from "../lab/neighbours.ts";
import { actors } from "../lab/net.ts";
import { run, until } from "../lab/process.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { buildWorld, type World } from "../world.ts";

let host: Host;
let world: World;
let before: Neighbourhood;

/** Before and after a reload the proxy's layer asks every listener of this nginx whether it answers, and says who asks. */
const ourQuestion = / 400 .*"pushgate"$/;

async function neighbours(): Promise<Neighbourhood> {
  const seen = await neighbourhood(host);
  return { ...seen, shop: { ...seen.shop, logged: seen.shop.logged.filter((line) => !ourQuestion.test(line)) } };
}

/** Looks at all of it twice a second while `work` runs; throws when the shop does not answer. */
const watched = <T>(work: () => Promise<T>) => repeatWhile(work, neighbours, 500);

const shop = () => visitShop(host.address, actors.stranger.v4[0]);
const children = () => host.read("cat /proc/$(cat /run/nginx.pid)/task/*/children");
const narrow = "/etc/systemd/system/nginx.service.d/narrow.conf";

beforeAll(async () => {
  host = await bootHost({ name: "house", release, variant: "packages" });
  await addNeighbours(host);
  before = await neighbours();
  world = await buildWorld([host]);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

test("the neighbours serve before", () => {
  expect(before.shop.v4).toMatch(/^200 the shop is open/);
  expect(before.shop.logged).toHaveLength(2);
  expect(Object.keys(before.tables)).toEqual(expect.arrayContaining(["inet f2b-table", "ip filter", "ip nat"]));
  expect(before.rules.join("\n")).toContain("from 10.66.0.0/24 lookup 200");
});

describe("an nginx without CAP_NET_RAW", () => {
  let workers: string;
  beforeAll(async () => {
    await host.writeFile(narrow, "[Service]\nCapabilityBoundingSet=~CAP_NET_RAW\n");
    await host.inside("systemctl daemon-reload && systemctl restart nginx.service");
    await until("the shop is open again", () => shop().catch(() => undefined));
    workers = await children();
  });
  afterAll(async () => {
    await host.inside(
      `rm -r ${narrow.replace(/\/[^/]*$/, "")} && systemctl daemon-reload && systemctl restart nginx.service`,
    );
    await until("the shop is open again", () => shop().catch(() => undefined));
  });

  test("up stops before the reload with cause and cure, and the neighbours notice nothing", async () => {
    const { done: up, seen: looks } = await watched(() => world.stack.up());
    expect(up.code).toBe(1);
    const text = up.stdout + up.stderr;
    expect(text).toContain("nginx does not hold CAP_NET_RAW, so its workers would die on reload");
    expect(text).toContain("Find what removes it (CapabilityBoundingSet= or User= in systemctl cat nginx.service)");
    expect(text).toContain("proxy: nothing was changed, the former state serves");
    expect(await host.read(`ls ${paths.nginx} 2>/dev/null || true`)).toBe("");
    // The same workers: nobody told nginx anything.
    expect(await children()).toBe(workers);
    expect(looks.length).toBeGreaterThan(3);
    for (const look of looks) expect(look).toEqual(before);
    expect(world.api.zone.dns_records).toEqual([]);
  });

  test("without that check every site of this nginx would be down, and nginx -t calls it fine", async () => {
    const trap = "/etc/nginx/conf.d/trap.conf";
    const site =
      "server { listen 8099; location / { proxy_bind $remote_addr transparent; proxy_pass http://127.0.0.1:1; } }\n";
    await host.writeFile(trap, site);
    expect((await host.inside("nginx -t")).stderr).toContain("test is successful");
    await host.inside("systemctl reload nginx.service");
    await until("all workers are dead", async () => ((await children()) === "" ? true : undefined));
    const { code } = await run("curl", ["-sk", "-m1", `https://${host.address}/`], { check: false });
    expect(code).toBe(28);
    await host.inside(`rm ${trap}`);
  });
});

describe("with the cure", () => {
  let up: Run;
  let looks: readonly Neighbourhood[];
  beforeAll(async () => {
    ({ done: up, seen: looks } = await watched(() => world.stack.up()));
  });

  test("the same up goes on, and the neighbours are the same and serve all along", async () => {
    expect(up.code, up.stdout).toBe(0);
    expect(looks.length).toBeGreaterThan(3);
    for (const look of looks) expect(look).toEqual(before);
  });

  test("a delivery is accepted, past ufw's drop, and is in no neighbour's log", async () => {
    const log = () => host.read("cat /var/log/nginx/shop.access.log");
    const lines = await log();
    for (const source of [actors.github.v4[0], actors.github.v6[0]])
      expect(await world.deliver({ source })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    expect(await log()).toBe(lines);
  });

  test("afterwards the neighbours are the same, and the audit finds nothing", async () => {
    expect(await neighbours()).toEqual(before);
    const preview = await world.stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(0);
  });
});
