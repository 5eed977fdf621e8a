/**
 * `npx pushgate trace` on a real host: for each fault it names the layer that rejected the delivery. The fault is then
 * undone, and the next delivery is accepted. The faults at Cloudflare come first, as systemd's needs the rules deleted.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import type { Change } from "../../fakes/deliveries.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import type { Answer, World } from "../world.ts";

let host: Host;
let world: World;

beforeAll(async () => {
  world = await deployedWorld("trace");
  host = world.hosts[0]!;
  await fault.noGuard.make(world, host);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

/** Sends a delivery, and traces it by its id and by what a git host's page would show of the answer. */
async function traced(change: Change = {}, looks: "by id and answer" | "by id" | "by answer" = "by id and answer") {
  const id = randomUUID();
  const answer: Answer = await world.deliver({ ...change, headers: { "x-github-delivery": id, ...change.headers } });
  const headers = Object.entries(answer.headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
  const { code, stdout, stderr } = await world.stack.pushgate(
    "trace",
    "--json",
    ...(looks === "by answer" ? [] : ["--delivery", id]),
    ...(looks === "by id" ? [] : ["--status", String(answer.status), ...headers]),
  );
  expect(stderr).toBe("");
  const found = JSON.parse(stdout) as { certainty: string; outcomes: { name: string; layer: string }[] }[];
  expect(found).toHaveLength(1);
  const { certainty, outcomes } = found[0]!;
  return { code, certainty, names: outcomes.map(({ name }) => name) };
}

const certainly = (name: string, code = 1) => ({ code, certainty: "certain", names: [name] });
const accepted = certainly("accepted", 0);
const sh = (script: string) => () => host.inside(`set -e\n${script}`);

test("a delivery that was accepted, by its id alone, by the answer alone, and by both", async () => {
  for (const looks of ["by id", "by answer", "by id and answer"] as const)
    expect([looks, await traced({}, looks)]).toEqual([looks, accepted]);
});

test("an id that no host has seen, and nothing else", async () => {
  const { code, stdout } = await world.stack.pushgate("trace", "--delivery", randomUUID());
  expect(code).toBe(2);
  expect(stdout).toMatch(/nginx +no line\n +receiver +no line/);
});

test.each<[what: string, change: Change, name: string]>([
  ["of another secret", { secret: "another secret, which is long enough to be one" }, "signature"],
  ["as a form", { headers: { "content-type": "application/x-www-form-urlencoded" } }, "content type"],
  ["of a body that is no object", { body: Buffer.from("[]") }, "no push"],
  ["of a body of 6 MiB", { body: Buffer.alloc(6 << 20, " ") }, "large body"],
])("a delivery %s", async (_, change, name) => {
  expect(await traced(change)).toEqual(certainly(name));
  expect(await traced(change, "by id")).toMatchObject({ names: expect.arrayContaining([name]) });
});

test("a delivery to another branch was delivered, and ignored", async () => {
  const payload = { ref: "refs/heads/next", before: "0".repeat(40), after: "1".repeat(40) };
  expect(await traced({ payload })).toEqual(certainly("ignored", 0));
});

const origin = `${paths.tls}/origin.pem`;
type Step = () => Promise<unknown>;
test.each<[what: string, make: Step, undo: Step, change: Change, seen: Record<string, unknown>]>([
  [
    "whose path Cloudflare's rules do not declare",
    async () => {},
    async () => {},
    { path: "/webhook/other" },
    { code: 2, certainty: "unknown", names: expect.arrayContaining(["not declared"]) },
  ],
  ["while nginx is stopped", sh("systemctl stop nginx"), sh("systemctl start nginx"), {}, certainly("firewall")],
  [
    "that a firewall before nginx drops",
    sh(
      "nft add table inet other\nnft add chain inet other in '{ type filter hook input priority -10; }'\nnft add rule inet other in tcp dport 8443 drop",
    ),
    sh("nft delete table inet other"),
    {},
    certainly("firewall"),
  ],
  [
    "while another certificate lies in the origin certificate's place",
    async () => {
      await host.inside(`set -e
cp -p ${origin} /root/kept.pem
openssl req -x509 -key ${paths.tls}/origin.key -subj /CN=other -days 1 -out ${origin}`);
      await fault.reloadProxy(host);
    },
    async () => {
      await host.inside(`mv /root/kept.pem ${origin}`);
      await fault.reloadProxy(host);
    },
    {},
    certainly("origin certificate"),
  ],
  [
    "while the receiver's socket is stopped",
    sh(`systemctl stop ${units.socket("github")} ${units.receiver}`),
    sh(`systemctl start ${units.socket("github")}`),
    {},
    certainly("socket"),
  ],
  [
    "while the rule that leads answers back to nginx is missing",
    sh("while ip rule del table 9460 2>/dev/null; do :; done"),
    sh(`systemctl restart ${units.routing}`),
    {},
    certainly("socket"),
  ],
])("a delivery %s", async (_, make, undo, change, seen) => {
  await make();
  expect(await traced(change)).toEqual(seen);
  await undo();
  expect(await traced()).toEqual(accepted);
});

test("a delivery that Cloudflare challenges, and one of a source that only systemd rejects", async () => {
  const rulesets = world.api.zone.rulesets.map((ruleset) => [ruleset, ruleset.rules] as const);
  await fault.noRules.make(world, host);
  expect(await traced({ source: actors.stranger.v4[0] })).toEqual(certainly("outside of the ranges"));
  await fault.bots("managed_challenge").make(world, host);
  expect(await traced()).toEqual({
    ...{ code: 1, certainty: "likely" },
    names: expect.arrayContaining(["Super Bot Fight Mode"]),
  });
  for (const [ruleset, rules] of rulesets) ruleset.rules = rules;
  expect(await traced()).toEqual(accepted);
});
