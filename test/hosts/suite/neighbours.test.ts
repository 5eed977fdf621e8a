/**
 * A host with neighbours: a shop on 443 with its own log, Docker, ufw, fail2ban and a policy route of the operator.
 * They are unchanged and serve before, during and after an `up`, even one that fails because nginx lacks CAP_NET_RAW:
 * `nginx -t` does not notice that, but a reload would end every site.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { inheritable } from "../../infra/host/lab/directives.ts";
import { unexplained } from "../../infra/host/lab/http-level.ts";
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

/** Reads the neighbours' state twice per second while `work` runs; throws if the shop does not answer. */
const watched = <T>(work: () => Promise<T>) => repeatWhile(work, () => neighbourhood(host), 500);

const shop = () => visitShop(host.address, actors.stranger.v4[0]);
const children = () => host.read("cat /proc/$(cat /run/nginx.pid)/task/*/children");
const narrow = "/etc/systemd/system/nginx.service.d/narrow.conf";

/** Calls itself nginx, answers once and then listens no more. */
const impostor = `use IO::Socket::INET; $0 = "nginx";
my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8099", Listen => 5, ReuseAddr => 1) or die;
my $visitor = $listener->accept; print $visitor "HTTP/1.0 200 OK\\r\\n\\r\\n"`;

beforeAll(async () => {
  host = await bootHost({ name: "house", release, variant: "packages" });
  await addNeighbours(host);
  // The operator's http level has a CA, which nginx would trust for pushgate's servers, too.
  await host.writeFile("/etc/nginx/conf.d/trust.conf", "ssl_trusted_certificate /etc/ssl/shop.pem;\n");
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

  test("up stops before the reload, prints cause and fix, and the neighbours are unchanged", async () => {
    const { done: up, seen: looks } = await watched(() => world.stack.up());
    expect(up.code).toBe(1);
    const text = up.stdout + up.stderr;
    expect(text).toContain("nginx does not hold CAP_NET_RAW, so its workers would die on reload");
    expect(text).toContain("Find what removes it (CapabilityBoundingSet= or User= in systemctl cat nginx.service)");
    expect(text).toContain("proxy: nothing was changed");
    expect(await host.read(`ls ${paths.nginx} 2>/dev/null || true`)).toBe("");
    // The same workers: nginx was not reloaded.
    expect(await children()).toBe(workers);
    expect(looks.length).toBeGreaterThan(1);
    for (const look of looks) expect(look).toEqual(before);
    expect(world.api.zone.dns_records).toEqual([]);
  });

  test("without that check a reload takes every site of this nginx down, although nginx -t succeeds", async () => {
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

describe("with the fix", () => {
  let up: Run;
  let looks: readonly Neighbourhood[];
  beforeAll(async () => {
    await host.inside(`systemd-run --quiet --uid=daemon --unit=impostor perl -e '${impostor}'`);
    ({ done: up, seen: looks } = await watched(() => world.stack.up()));
  });

  test("up succeeds, and the neighbours are unchanged and serve all the time", async () => {
    expect(up.code, up.stdout).toBe(0);
    expect(looks.length).toBeGreaterThan(1);
    for (const look of looks) expect(look).toEqual(before);
  });

  test("the receiver accepts a delivery despite ufw's default drop, and no neighbour's log has it", async () => {
    const log = () => host.read("cat /var/log/nginx/shop.access.log");
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

  test("the apply connected to no process that only calls itself nginx", async () => {
    expect(await host.read("systemctl is-active impostor.service")).toBe("active");
  });

  test("pushgate's servers set each directive of the host's nginx that changes an answer", () => {
    const known = inheritable(join(host.root, "usr/sbin/nginx"));
    expect(known.length).toBeGreaterThan(300);
    expect([...unexplained("hooks", known), ...unexplained("site", known)]).toEqual([]);
  });

  test("preview reports an http level that replaces the bodies of deliveries, which no server can take back", async () => {
    const line = "/etc/nginx/conf.d/body.conf";
    await host.writeFile(line, "proxy_set_body other;\n");
    const preview = await world.stack.preview("--expect-no-changes");
    await host.inside(`rm ${line}`);
    expect(preview.code).not.toBe(0);
    expect(preview.stdout + preview.stderr).toContain(
      `nginx's http level replaces the bodies of deliveries (proxy_set_body): declared is "no", the host reports "yes"`,
    );
  });
});
