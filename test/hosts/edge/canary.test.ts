/**
 * `up` and plain `preview` request the canary from Cloudflare, as any client could. If a firewall outside pushgate
 * blocks Cloudflare's connections to the host, they report it, although every layer is as declared.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Run } from "../../engine/engine.ts";
import type { Edge } from "../../fakes/cloudflare/dataplane.ts";
import { deployedName, deployedWorld } from "../deployed.ts";
import { nameAddress } from "../lab/lab.ts";
import { run, until } from "../lab/process.ts";
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

const provider = (rules: string) => run("nft", ["-f", "-"], { stdin: rules });
/** Adds the hosting provider's firewall, which is between Cloudflare and the host. */
const closed = () =>
  provider(
    `add table inet provider; add chain inet provider out { type filter hook output priority 0; }; ` +
      `add rule inet provider out ip daddr ${host.address} tcp dport ${originPort} drop; ` +
      `add rule inet provider out ip6 daddr ${host.address6} tcp dport ${originPort} drop`,
  );
const open = () => provider("add table inet provider; delete table inet provider");
afterEach(open);

const requests = () => edge.events.filter(({ target }) => target === "/.pushgate").map(({ status }) => status);
const printed = ({ diagnostics }: Run): string[] =>
  diagnostics.map(({ message }) => message.trim()).filter((message) => /\.pushgate|gets through/.test(message));
/** The statuses of canary requests during a run that must succeed, and the lines about the canary that it printed. */
async function during(work: () => Promise<Run>): Promise<{ statuses: number[]; says: string[] }> {
  const before = requests().length;
  const done = await work();
  expect(done.code, done.stdout).toBe(0);
  return { statuses: requests().slice(before), says: printed(done) };
}
const preview = () => world.stack.preview("--expect-no-changes");

test("preview prints nothing if the canary gets through, and names the firewall if one blocks Cloudflare", async () => {
  expect(await during(preview)).toEqual({ statuses: [204], says: [] });
  await closed();
  const { statuses, says } = await during(preview);
  expect(statuses).toEqual([522]);
  expect(says).toHaveLength(1);
  expect(says[0]).toContain(
    `${host.address} and ${host.address6}, port ${originPort}: a firewall drops its connections, or the host or ` +
      "nginx is down. npx pushgate status, then npx pulumi preview. A hosting provider's firewall must let " +
      "https://www.cloudflare.com/ips in on that port, too.",
  );
  const prefix = `${deployedName}: https://${hostnameOf(host)}/.pushgate does not get through. 522, ray `;
  expect(says[0]!.startsWith(prefix), says[0]).toBe(true);
  expect(says[0]).toMatch(/, ray [0-9a-f]+-TST: Cloudflare could not connect to /);
});

test("up waits, and prints that it waits, if the firewall opens while it runs", async () => {
  await closed();
  const before = requests().length;
  const requested = () => requests().length > before || undefined;
  const opens = until("up has requested the canary", requested, { timeout: 120_000 }).then(open);
  const { statuses, says } = await during(() => world.stack.up());
  await opens;
  // `up` tries again after 2 s: it may do so before the firewall is open.
  expect(new Set(statuses.slice(0, -1))).toEqual(new Set([522]));
  expect(statuses.at(-1)).toBe(204);
  expect(says).toEqual([`waiting until a request to ${hostnameOf(host)} gets through to ${deployedName}`]);
});
