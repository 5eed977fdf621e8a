/**
 * `npx pushgate trace` of deliveries without a fault, and with one at the sender, at Cloudflare, in the firewall or in
 * nginx. Faults behind nginx are in trace-receiver.test.ts, those of Cloudflare's own products in
 * trace-cloudflare.test.ts.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientCaPath, paths, settledCa, units } from "../../../infra/host/paths.ts";
import * as fault from "../faults.ts";
import { actors } from "../lab/net.ts";
import {
  accepted,
  applied,
  endTracing,
  github6,
  host,
  meets,
  type Row,
  reload,
  sh,
  startTracing,
  straight,
  traced,
  unanswered,
  up,
  world,
} from "../traced.ts";
import { edgeBack, hostnameOf } from "../world.ts";

beforeAll(() => startTracing("trace"));
afterAll(endTracing);

test("a delivery that was accepted, by its id alone, by the answer alone, and by both", async () => {
  for (const looks of ["by id", "by answer", "by id and answer"] as const)
    expect([looks, await traced({}, looks)]).toEqual([looks, accepted]);
});

test("a delivery to another branch was delivered, and ignored", async () => {
  const payload = { ref: "refs/heads/next", before: "0".repeat(40), after: "1".repeat(40) };
  expect(await traced({ payload })).toMatchObject({ code: 0, names: ["ignored"] });
});

test("an id that no host has seen, and nothing else", async () => {
  const { code, stdout } = await world.stack.pushgate("trace", "--delivery", randomUUID());
  expect(code).toBe(3);
  expect(stdout).toMatch(/nginx +no line\n +receiver +no line/);
});

const origin = `${paths.tls}/origin.pem`;

const sender: Row[] = [
  {
    what: "is signed with another secret",
    change: { secret: "another secret, which is long enough to be one" },
    name: "signature",
    fix: /Enter the secret/,
  },
  {
    what: "is sent as a form",
    change: { headers: { "content-type": "application/x-www-form-urlencoded" } },
    name: "content type",
    fix: /Set application\/json/,
  },
  {
    what: "has a body that is no object",
    change: { body: Buffer.from("[]") },
    name: "no push",
    fix: /hooks\[\]\.gitHost/,
  },
  {
    what: "has a body of 6 MiB",
    change: { body: Buffer.alloc(6 << 20, " ") },
    name: "large body",
    fix: /limits\.bodyBytes/,
  },
];

const atCloudflare: Row[] = [
  {
    what: "comes while Cloudflare presents no client certificate",
    make: async () => {
      for (const one of world.api.zone.origin_pulls.hostnames) one.enabled = false;
    },
    name: "client certificate",
    fix: /^npx pulumi up, which presents/,
    by: "up",
  },
  {
    what: "comes while nginx trusts another CA than that of the client certificate",
    make: async () => {
      await host.inside(`set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=other -keyout /dev/null -out ${clientCaPath}
cp ${clientCaPath} ${settledCa.path}`);
      await reload();
    },
    name: "client certificate",
    fix: /^npx pulumi up, which presents/,
    by: "up",
  },
  {
    what: "comes while another certificate lies in the origin certificate's place",
    make: async () => {
      await host.inside(`set -e
openssl req -x509 -key ${paths.tls}/origin.key -subj /CN=other -days 1 -out ${origin}.new
mv ${origin}.new ${origin}`);
      await reload();
    },
    name: "origin certificate",
    cause: /origin certificate: declared is "valid", the host reports "is not for/,
    fix: up,
    by: "up",
  },
  {
    what: "the git host cannot send, as the hostname's records are deleted",
    make: async () => {
      const { dns_records: all } = world.api.zone;
      all.splice(0, all.length, ...all.filter(({ name }) => name !== hostnameOf(host)));
    },
    // The lab's git host has no resolver: this is what a real one shows of a name without an address.
    send: async () => unanswered,
    name: "no address",
    alike: ["DDoS protection", "firewall"],
    certainty: "unknown",
    fix: /npx pulumi preview shows whether the record/,
    by: () => applied(),
  },
  {
    what: "comes while the hostname's records name an address at which no host is",
    make: () => fault.recordsAt({ A: "203.0.113.251", AAAA: "2001:db8:113::251" }).make(world, host),
    // No host answers ARP there, so Cloudflare's connection ends before it gives up.
    name: "no route",
    fix: /hosts\[\]\.address/,
    by: () => applied(),
  },
];

const socket = `${paths.units}/${units.nginxSocket}`;
const bound = `systemctl daemon-reload && systemctl stop ${units.nginxSocket} ${units.nginx} && systemctl start ${units.nginx}`;
const firewallAndNginx: Row[] = [
  {
    what: "comes while nginx is stopped",
    make: sh(`systemctl stop ${units.nginxSocket} ${units.nginx}`),
    name: "firewall",
    cause: /^6 nginx: pushgate-nginx\.socket is: .*inactive/,
    fix: /^ssh root@\w+ systemctl restart pushgate-nginx\.service$/,
    by: "ssh",
  },
  {
    what: "comes while nginx listens on another port",
    make: sh(`sed -i 's/listen 8443 /listen 8444 /' ${paths.nginx} && sed -i s/:8443/:8444/ ${socket} && ${bound}`),
    name: "firewall",
    cause: /^6 nginx: \/etc\/pushgate\/nginx\.conf has other contents/,
    fix: up,
    by: "up",
  },
  {
    what: "comes from Cloudflare over IPv6, on which nginx no longer listens",
    make: sh(`sed -i '/\\[::\\]/d' ${socket} && ${bound}`),
    change: { source: github6 },
    name: "firewall",
    cause: /^6 nginx: .*pushgate-nginx\.socket has other contents/,
    fix: up,
    by: "up",
  },
  {
    what: "comes from an address of Cloudflare that the live table does not hold",
    make: sh("nft flush set inet pushgate edge4"),
    name: "firewall",
    cause: /^5 firewall: table inet pushgate: .*missing/,
    fix: new RegExp(`systemctl restart ${units.firewall}$`),
    by: "ssh",
  },
  {
    what: "comes while another table drops the origin port",
    make: sh(
      "nft add table inet other\nnft add chain inet other in '{ type filter hook input priority -10; }'\nnft add rule inet other in tcp dport 8443 drop",
    ),
    name: "firewall",
    cause: /^5 firewall: .*inet other in: tcp dport 8443 drop/,
    fix: /Let the origin port pass there: ssh/,
    by: sh("nft delete table inet other"),
  },
  {
    what: "comes while another table rejects what it does not know",
    make: sh(
      "nft add table ip old\nnft add chain ip old in '{ type filter hook input priority 5; }'\nnft add rule ip old in tcp dport != 22 iifname != lo reject with tcp reset",
    ),
    name: "firewall",
    cause: /^5 firewall: .*ip old in: .*reject/,
    fix: /Let the origin port pass there: ssh/,
    by: sh("nft delete table ip old"),
  },
  {
    what: "comes straight to the host, whose table is gone, with Cloudflare's certificate",
    make: sh("nft delete table inet pushgate"),
    send: (id) => straight(id, actors.stranger.v4[0]),
    name: "not from Cloudflare",
    alike: ["no client address"],
    cause: /^5 firewall: table inet pushgate: .*absent/,
    fix: new RegExp(`systemctl restart ${units.firewall}$`),
    by: "ssh",
  },
  {
    what: "comes from Cloudflare without the client address, which a transform rule removed",
    send: (id) => straight(id, edgeBack.v4),
    name: "no client address",
    alike: ["not from Cloudflare"],
    fix: /transform rule/,
  },
];

describe("a delivery that", () => {
  test.each([...sender, ...atCloudflare, ...firewallAndNginx])("$what", meets);

  test("is signed and in order, and Cloudflare challenges its sender", async () => {
    const rulesets = world.api.zone.rulesets.map((ruleset) => [ruleset, ruleset.rules] as const);
    await fault.noRules.make(world, host);
    await fault.bots("managed_challenge").make(world, host);
    expect(await traced()).toEqual({
      ...{ code: 1, certainty: "likely" },
      names: expect.arrayContaining(["Super Bot Fight Mode"]),
    });
    await fault.bots("allow").make(world, host);
    for (const [ruleset, rules] of rulesets) ruleset.rules = rules;
    expect(await traced()).toEqual(accepted);
  });
});
