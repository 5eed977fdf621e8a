/**
 * Like test/hosts/suite/drift.test.ts, for a host with published sites: plain `pulumi preview` prints each manual
 * change of the builder's layers, `up` repairs them in place, and no visitor notices, also of a site whose hostname an
 * earlier `up` added. suite/load.test.ts has deliveries during an `up`.
 */
import { beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { deployedName } from "../deployed.ts";
import { repeatWhile } from "../repeat-while.ts";
import { zoneName } from "../world.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, placesOf } from "./site.ts";
import { idle, published, statusOf } from "./status.ts";

/** A layer, the shell script that root runs on the host, and what preview must print about it. */
type Fault = { readonly layer: string; readonly change: string; readonly says: readonly string[] };

const hostname = `www.${zoneName}`;
const { webRoot, site: folder } = placesOf("site");
const current = `${folder}/current`;
const rebuild = await deployedRebuild("drifter", { site: { hostname } });
const { host } = rebuild;

beforeAll(async () => {
  await idle(host);
  await idle(host, "docs");
});

/** The faults, in the order in which `up` repairs their layers. */
const faults: readonly Fault[] = [
  {
    layer: "egress",
    change: `nft delete table inet pushgate_egress
rm ${paths.stamps}/egress`,
    says: [
      "no stamp: the last apply did not finish",
      'table inet pushgate_egress: declared is "as declared", the host reports "absent"',
    ],
  },
  {
    layer: "builder",
    change: `echo '// by hand' >>${paths.builder}
cd ${paths.units}
sed -i '/^RootDirectory=/d' pushgate-generator-site@.service
ln -sf /dev/null ${units.buildPath("docs")}
sed -i 's/"pagesPercent": 50/"pagesPercent": 0/' ${paths.builderSettings}/site.json
rm ${paths.builderSettings}/docs.known_hosts
rmdir ${paths.rootRequests}/docs
systemctl stop ${units.generatorSocket("docs")}`,
    says: [
      `${paths.units}/pushgate-generator-site@.service has other contents (- on the host, + declared):`,
      "\n+ RootDirectory=/run/pushgate-roots/site/generator\n",
      `${paths.units}/${units.buildPath("docs")}`,
      `${paths.builderSettings}/site.json has other contents`,
      '\n-     "pagesPercent": 0,\n+     "pagesPercent": 50,\n',
      `${paths.builderSettings}/docs.known_hosts is missing`,
      `${paths.builder} is: differs (- on the host, + declared):`,
      `\n+ ${paths.rootRequests}/docs 770 root:pushgate-build-docs`,
      `units of ${units.site("docs")} that are not active`,
    ],
  },
  {
    layer: "site",
    // Stops all builders, because the start of one would restore the egress table. Links the web root like a manual rollback.
    change: `systemctl --quiet disable --now ${units.site("site")}
systemctl stop ${units.site("docs")}
until [ "$(systemctl is-active ${units.reconcile("site")} ${units.reconcile("docs")} | sort -u)" = inactive ]; do sleep 0.1; done
ln -sfn "$(readlink -f ${folder}/current)" ${webRoot}`,
    says: [
      `${units.site("site")} is: declared is "enabled active", the host reports "disabled inactive"`,
      `${units.site("docs")} is: declared is "enabled active", the host reports "enabled inactive"`,
      `the link ${webRoot} leads to: declared is "${folder}/current", the host reports "${folder}/releases/`,
    ],
  },
  {
    layer: "proxy",
    change: `sed -i 's|root ${current};|root /var/www/html;|' ${paths.nginx}`,
    says: [`${paths.nginx} has other contents`, `\n-         root /var/www/html;\n+         root ${current};\n`],
  },
  {
    layer: "guard",
    // A running guard would restore the egress table.
    change: `systemctl --quiet disable --now ${units.guardTimer}
while systemctl is-active --quiet ${units.guard}; do sleep 0.1; done`,
    says: [`${units.guardTimer} is: declared is "enabled active", the host reports "disabled inactive"`],
  },
];

/** Visits the sites while `work` runs: directly at the operator's own nginx, and by hostname through Cloudflare. */
async function whileVisited<T>(work: () => Promise<T>): Promise<{ done: T; statuses: Set<number>; visits: number }> {
  const visits = () => Promise.all([rebuild.visit(), rebuild.visit("/style.css"), rebuild.world.visit(hostname)]);
  const { done, seen } = await repeatWhile(work, visits, 20);
  const all = seen.flat();
  return { done, statuses: new Set(all.map(({ status }) => status)), visits: all.length };
}

const stepsOf = ({ steps }: Run) => steps.map(({ op, name: resource }) => `${op} ${resource}`).sort();

test("preview prints each manual change of the builder's layers, and up repairs them while the pages are served", async () => {
  const nginx = await host.read(`systemctl show -p MainPID nginx.service ${units.nginx}`);
  // The guard's own fault comes first; otherwise the guard repairs the others.
  for (const { change } of [...faults].reverse()) await host.inside(change);

  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  const said = preview.diagnostics
    .filter(({ severity }) => severity === "warning")
    .map(({ message }) => message.replace(/^warning: /, ""));
  for (const { layer, says } of faults)
    for (const words of says)
      expect(said.filter((line) => line.startsWith(`${deployedName}: ${layer}: `)).join("\n"), layer).toContain(words);
  const layers = faults.map(({ layer }) => layer);
  const named = said.flatMap((line) => new RegExp(`^${deployedName}: ([a-z-]+): `).exec(line)?.[1] ?? []);
  expect(new Set(named)).toEqual(new Set(layers));
  const updates = layers.map((layer) => `update ${deployedName}-${layer}`).sort();
  expect(stepsOf(preview)).toEqual(updates);

  const before = statusOf(host)!.deployed;
  const { done: up, statuses, visits } = await whileVisited(() => rebuild.world.stack.up());
  expect(up.code, up.stdout).toBe(0);
  expect(stepsOf(up)).toEqual(updates);
  expect(visits).toBeGreaterThan(50);
  expect(statuses).toEqual(new Set([200]));
  expect(await host.read(`systemctl show -p MainPID nginx.service ${units.nginx}`)).toBe(nginx);
  expect(await host.read(`readlink ${webRoot}`)).toBe(`${folder}/current`);
  expect(statusOf(host)!.deployed).toEqual(before);

  const clean = await rebuild.world.stack.preview("--expect-no-changes");
  expect(clean.code, clean.stdout).toBe(0);
  for (const hook of ["site", "docs"] as const) {
    const commit = await rebuild.push({ "layouts/index.html": front(`repaired-${hook}`) }, hook);
    await published(host, commit, { hook, timeout: 60_000 });
    expect((await rebuild.visit("/", hook)).body).toContain(`layout-repaired-${hook}`);
  }
  expect((await rebuild.world.visit(hostname)).body).toContain("layout-repaired-site");
});
