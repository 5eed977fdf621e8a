/**
 * Plain `preview` requests the canary from Cloudflare, as any client could. If a firewall outside pushgate blocks
 * Cloudflare's connections to the host, it reports it, although every layer is as declared. What `up` does then is in
 * test/infra/edge/canary.test.ts.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Edge } from "../../fakes/cloudflare/dataplane.ts";
import { deployedName, deployedWorld } from "../deployed.ts";
import { nameAddress } from "../lab/lab.ts";
import { run } from "../lab/process.ts";
import { edgeFront, hostnameOf, originPort, startFront } from "../world.ts";

const { world, host } = await deployedWorld("canary");
/** The fake Cloudflare at the hook hostname. It listens on 443, because the program cannot choose another port. */
let edge: Edge;

beforeAll(async () => {
  const trusted = join(mkdtempSync(join(tmpdir(), "pushgate-trusted-")), "edge.pem");
  world.stack.env.NODE_EXTRA_CA_CERTS = trusted;
  edge = await startFront(world.api, 443);
  writeFileSync(trusted, edge.certificate);
  nameAddress(edgeFront.v4, hostnameOf(host));
  world.stack.configure({ "pushgate:edge": { plan: "pro", canary: true } });
});
afterAll(() => edge?.close());

const nft = (rules: string) => run("nft", ["-f", "-"], { stdin: rules });
/** The hosting provider's firewall, which is between Cloudflare and the host. */
const providersFirewall = () =>
  nft(
    `add table inet provider; add chain inet provider out { type filter hook output priority 0; }; ` +
      `add rule inet provider out ip daddr ${host.address} tcp dport ${originPort} drop; ` +
      `add rule inet provider out ip6 daddr ${host.address6} tcp dport ${originPort} drop`,
  );

/** Of a preview that finds no change: the statuses of its requests for the canary, and what it prints about it. */
async function preview() {
  const before = edge.events.length;
  const { code, stdout, diagnostics } = await world.stack.preview("--expect-no-changes");
  expect(code, stdout).toBe(0);
  const says = diagnostics.map(({ message }) => message.trim()).filter((message) => message.includes("/.pushgate"));
  return { statuses: edge.events.slice(before).map(({ status }) => status), says };
}

test("preview prints nothing if the canary gets through, and names the firewall if one blocks Cloudflare", async () => {
  expect(await preview()).toEqual({ statuses: [204], says: [] });
  await providersFirewall();
  const { statuses, says } = await preview();
  await nft("delete table inet provider");
  expect(statuses).toEqual([522]);
  expect(says).toEqual([
    expect.stringMatching(`^${deployedName}: https://${hostnameOf(host)}/.pushgate does not get `),
  ]);
  expect(says[0]).toMatch(
    / 522, ray [0-9a-f]+-TST: .* a firewall drops its connections, or the host or nginx is down\./,
  );
});
