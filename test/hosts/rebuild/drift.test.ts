/**
 * Like test/hosts/suite/drift.test.ts, for a host with published sites: plain `pulumi preview` prints each manual
 * change of the builder's layers, `up` repairs them in place, and no visitor notices, also of a site whose hostname an
 * earlier `up` added, nor a git host.
 */
import { beforeAll, expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import { ofSites, repairs } from "../drift.ts";
import { zoneName } from "../world.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, placesOf } from "./site.ts";
import { bothIdle, published, statusOf } from "./status.ts";

const hostname = `www.${zoneName}`;
const { webRoot, site: folder } = placesOf("site");
const rebuild = await deployedRebuild("drifter");
const { host, world } = rebuild;

beforeAll(async () => {
  rebuild.configure("site", { hostname });
  await rebuild.up();
  await bothIdle(host);
});

test("preview prints each manual change of the builder's layers, and up repairs them while the pages are served", async () => {
  const nginx = await host.read(`systemctl show -p MainPID nginx.service ${units.nginx}`);
  const before = statusOf(host)!.deployed;
  // Directly at the operator's own nginx, and by hostname through Cloudflare.
  const look = async () => [
    ...(await Promise.all([rebuild.visit(), rebuild.visit("/style.css"), world.visit(hostname)])),
    await world.deliver(),
  ];
  await repairs(rebuild, { mutations: ofSites }, look);
  expect(await host.read(`systemctl show -p MainPID nginx.service ${units.nginx}`)).toBe(nginx);
  expect(await host.read(`readlink ${webRoot}`)).toBe(`${folder}/current`);
  expect(statusOf(host)!.deployed).toEqual(before);

  for (const hook of ["site", "docs"] as const) {
    const commit = await rebuild.push({ "layouts/index.html": front(`repaired-${hook}`) }, hook);
    await published(host, commit, { hook, timeout: 60_000 });
    expect((await rebuild.visit("/", hook)).body).toContain(`layout-repaired-${hook}`);
  }
  expect((await world.visit(hostname)).body).toContain("layout-repaired-site");
});
