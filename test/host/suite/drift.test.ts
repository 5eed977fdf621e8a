/**
 * Plain `pulumi preview` sees what somebody changed on the machine or at the edge, says what, and `up` mends it in place.
 * Several faults a round; the preview of a round also proves that the round before it was mended whole.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { delivery } from "../../deliveries.ts";
import type { Rule, ZoneState } from "../../edge/zone.ts";
import type { Run } from "../../pulumi/engine.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { buildWorld, hostnameOf, type World } from "../world.ts";

type Fault = {
  readonly layer: string;
  /** What a hand does, as root on the machine. */
  readonly hand: string;
  /** What preview must say of it; nothing where nothing is wrong but the stamp's number. */
  readonly says: readonly string[];
};

type EdgeFault = { readonly resource: string; readonly hand: (zone: ZoneState) => void };

type Round = {
  readonly name: string;
  readonly faults: readonly Fault[];
  readonly edge: readonly EdgeFault[];
  /** What the faults themselves do to visitors, before anything is mended. */
  readonly meanwhile?: () => Promise<void>;
  /** Whether deliveries pass in spite of them; then each one passes while they are mended, too. */
  readonly serves: boolean;
};

const name = "drift";
const hostname = hostnameOf({ name });
let host: Host;
let world: World;

const rules = (zone: ZoneState, phase: string): Rule[] => zone.rulesets.find((one) => one.phase === phase)!.rules;
const custom = (zone: ZoneState) => rules(zone, "http_request_firewall_custom");
const record = (zone: ZoneState, type: string) => zone.dns_records.find((one) => one.type === type)!;

/** The guard mends table and rule by itself within a minute; what it leaves to `up` is seen with its timer stopped. */
const guardAsleep: Fault = {
  layer: "guard",
  hand: `systemctl --quiet disable --now pushgate-guard.timer
while systemctl is-active --quiet pushgate-guard.service; do sleep 0.1; done`,
  says: [
    'pushgate-guard.timer at boot: declared is "enabled", the machine says "disabled"',
    'pushgate-guard.timer: declared is "active", the machine says "inactive"',
  ],
};

const rounds: readonly Round[] = [
  {
    name: "files edited, deleted, chmodded, chowned, replaced by a link, and one nobody declared",
    serves: true,
    faults: [
      {
        layer: "keys",
        hand: `chmod 0644 ${paths.tls}/origin.key`,
        says: ['origin key and certificate request: declared is "valid", the machine says "the key is 644 root:root"'],
      },
      {
        layer: "certificate",
        hand: `echo 'a note' >>${paths.tls}/origin.pem`,
        says: [`${paths.tls}/origin.pem has other contents (- on the machine, + declared):`, "\n- a note"],
      },
      {
        layer: "receiver",
        hand: `cd ${paths.units}
sed -i s/^TasksMax=64/TasksMax=640/ pushgate-receiver.service
: >pushgate-receiver-extra.socket
rm ${paths.tmpfiles}
mv ${paths.receiverSettings} /root/receiver.json
ln -s /root/receiver.json ${paths.receiverSettings}`,
        says: [
          `${paths.units}/pushgate-receiver.service has other contents (- on the machine, + declared):`,
          "\n- TasksMax=640\n+ TasksMax=64\n",
          `${paths.units}/pushgate-receiver-extra.socket is ours and not declared`,
          `${paths.tmpfiles} is missing`,
          `${paths.receiverSettings} is a symbolic link, not a file`,
        ],
      },
      {
        layer: "proxy",
        hand: `sed -i 's/server_tokens off;/server_tokens on;/' ${paths.nginx}
chown nobody ${paths.tls}/origin-pull-ca.pem`,
        says: [
          `${paths.nginx} has other contents (- on the machine, + declared):`,
          "\n-     server_tokens on;\n+     server_tokens off;\n",
          `${paths.tls}/origin-pull-ca.pem is 644 nobody:root, declared is 644 root:root`,
        ],
      },
    ],
    edge: [
      {
        resource: "custom rules",
        hand: (zone) => {
          custom(zone)[0]!.expression = '(http.host eq "elsewhere.example.org")';
        },
      },
      {
        resource: `${hostname} A`,
        hand: (zone) => {
          record(zone, "A").proxied = false;
        },
      },
    ],
  },
  {
    name: "the running system, the program and a secret changed",
    serves: false,
    faults: [
      guardAsleep,
      {
        layer: "guard",
        hand: `sed -i 's/^set -u$/exit 0/' ${paths.lib}/guard`,
        says: [`${paths.lib}/guard has other contents`, "\n- exit 0\n+ set -u\n"],
      },
      {
        layer: "secrets",
        hand: `umask 077
echo somebody-elses-secret-0123456789-abcdef | systemd-creds encrypt --with-key=host --name=site - ${paths.credentials}/site`,
        says: ['credentials changed since they were installed: declared is "none", the machine says "site"'],
      },
      {
        layer: "bundle",
        hand: `echo '// by hand' >>${paths.receiver}`,
        says: [`${paths.receiver} is: differs (- on the machine, + declared):`],
      },
      {
        layer: "receiver",
        hand: `systemctl --quiet disable pushgate-receiver.service
chmod 0700 ${paths.spool}/site`,
        says: [
          'pushgate-receiver.service is: declared is "enabled active", the machine says "disabled active"',
          'pushgate-receiver.service runs what is installed: declared is "yes", the machine says "no"',
          `\n- ${paths.spool}/site 2700 pushgate-receiver:pushgate-spool\n`,
        ],
      },
      {
        layer: "routing",
        hand: `while ip rule del table 9460 2>/dev/null; do :; done
ip -6 route flush table 9460
ln -sf /dev/null ${paths.units}/pushgate-routing.service`,
        says: [
          "IPv4 routing rule: declared is",
          "IPv6 route in table 9460: declared is",
          `${paths.units}/pushgate-routing.service is a `,
        ],
      },
      {
        layer: "firewall",
        hand: "nft insert rule inet pushgate input tcp dport 8443 accept",
        says: [
          'table inet pushgate: declared is "as declared", the machine says "added: tcp dport 8443 accept (differs)"',
        ],
      },
    ],
    edge: [
      { resource: "custom rules", hand: (zone) => void custom(zone).reverse() },
      {
        resource: "configuration rules",
        hand: (zone) => {
          rules(zone, "http_config_settings")[0]!.enabled = false;
        },
      },
      {
        resource: `${hostname} AAAA`,
        hand: (zone) => {
          record(zone, "AAAA").content = "2001:db8::dead";
        },
      },
    ],
  },
  {
    name: "stamps, units, an allowlist widened, tables flushed, a rule of somebody else's before ours",
    serves: true,
    faults: [
      guardAsleep,
      {
        layer: "packages",
        hand: "dpkg --remove --force-depends nodejs 2>&1",
        says: ['package nodejs: declared is "installed", the machine says "missing"'],
      },
      { layer: "keys", hand: `echo '$(reboot)' >${paths.stamps}/keys`, says: ["the stamp on the machine is not ours"] },
      {
        layer: "certificate",
        hand: `rm ${paths.stamps}/certificate`,
        says: ["no stamp: the last apply did not finish"],
      },
      // Another of our stamps, as from a backup: nothing is wrong on the machine. And without node nobody can look.
      { layer: "bundle", hand: `sed -i 1s/.*/0123456789ab/ ${paths.stamps}/bundle`, says: [] },
      { layer: "secrets", hand: ":", says: [] },
      {
        layer: "receiver",
        hand: `mkdir ${paths.units}/pushgate-receiver-github.socket.d
printf '[Socket]\\nIPAddressAllow=any\\n' >${paths.units}/pushgate-receiver-github.socket.d/wide.conf
systemctl daemon-reload
systemd-run --quiet --wait --collect --slice=pushgate.slice true
systemctl --quiet disable --now pushgate-receiver-docs.socket`,
        says: [
          `${paths.units}/pushgate-receiver-github.socket.d/wide.conf is ours and not declared`,
          "pushgate-receiver-github.socket admits: declared is",
          'pushgate-receiver-docs.socket is: declared is "enabled active in /pushgate.slice/pushgate-receiver-docs.socket", the machine says "disabled inactive',
        ],
      },
      {
        layer: "proxy",
        hand: `cp ${paths.nginx} /root/nginx.conf
ln -sf /root/nginx.conf ${paths.nginx}
systemctl --quiet disable nginx.service`,
        says: [
          `${paths.nginx} is a symbolic link, not a file`,
          'nginx is: declared is "enabled active", the machine says "disabled active"',
        ],
      },
      {
        layer: "firewall",
        hand: "systemctl --quiet disable --now pushgate-firewall.service && nft flush ruleset",
        says: [
          'table inet pushgate: declared is "as declared", the machine says "absent"',
          'pushgate-firewall.service at boot: declared is "enabled", the machine says "disabled"',
          'pushgate-firewall.service: declared is "active", the machine says "inactive"',
        ],
      },
    ],
    edge: [
      {
        resource: "custom rules",
        hand: (zone) => {
          const foreign = { ...custom(zone)[0]!, id: "f".repeat(32), ref: "theirs", description: "a person's own" };
          const { action_parameters: _, logging: __, ...plain } = foreign;
          custom(zone).unshift({ ...plain, action: "managed_challenge", expression: "(ssl)" });
        },
      },
      {
        resource: "origin rules",
        hand: (zone) => {
          rules(zone, "http_request_origin")[0]!.action_parameters = { origin: { port: 443 } };
        },
      },
      {
        resource: `${hostname} origin pulls`,
        hand: (zone) => {
          zone.origin_pulls.hostnames[0]!.enabled = false;
        },
      },
    ],
    meanwhile: async () => {
      // The guard would have closed it; the firewall is down too. What is left is the client certificate.
      expect((await straight(actors.stranger.v4[0])).status).toBe(202);
    },
  },
];

/** As the edge would contact the machine for this visitor, but past the edge's own rules, which are spoilt as well. */
function straight(visitor: string) {
  const [leaf] = world.api.zone.origin_pulls.hostname_certificates;
  const sent = delivery({ source: visitor, host: hostname, headers: { "cf-connecting-ip": visitor } });
  return world.contact(host, actors.edge.v4[0], sent, { cert: leaf!.certificate, key: leaf!.private_key });
}

const warnings = ({ diagnostics }: Run) =>
  diagnostics
    .filter(({ severity }) => severity === "warning")
    .map(({ message }) => message.replace(/^warning: /, ""))
    .filter((line) => line.startsWith(`${name}: `));

/** Since when the socket listens and nginx's master runs: neither may be restarted to mend anything. */
const untouched = () =>
  host.read(
    "systemctl show -p ActiveEnterTimestampMonotonic pushgate-receiver-github.socket; systemctl show -p MainPID nginx.service",
  );

beforeAll(async () => {
  host = await bootHost({ name, release, variant: "packages" });
  world = await buildWorld([host]);
  const up = await world.stack.up();
  expect(up.code, up.stdout).toBe(0);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

for (const { name: round, faults, edge, meanwhile, serves } of rounds) {
  test(`preview sees and up mends: ${round}`, async () => {
    const before = await untouched();
    for (const { hand } of faults) await host.inside(hand);
    for (const { hand } of edge) hand(world.api.zone);
    await meanwhile?.();

    const preview = await world.stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(7);
    const said = warnings(preview);
    for (const { layer, says } of faults)
      for (const words of says)
        expect(said.filter((line) => line.startsWith(`${name}: ${layer}: `)).join("\n")).toContain(words);
    const named = new Set(said.map((line) => line.split(": ")[1]));
    expect([...named].sort()).toEqual(layersOf(faults.filter(({ says }) => says.length > 0)));
    const steps = preview.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort();
    expect(steps).toEqual(updates(faults, edge));

    const { run: up, statuses } = await whileDelivering(() => world.stack.up());
    expect(up.code, up.stdout).toBe(0);
    expect(up.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort()).toEqual(updates(faults, edge));
    if (serves) expect(new Set(statuses)).toEqual(new Set([202]));
    expect(await untouched()).toBe(before);
    expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    expect(await straight(actors.stranger.v4[0])).toMatchObject({ status: 403, servedBy: "pushgate-proxy" });
  });
}

test("the last round is mended whole, and a rule that is not ours is still there, after ours", async () => {
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  expect(custom(world.api.zone).map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest", "theirs"]);
});

test("a machine that can't be asked fails the audit, as nobody looked", async () => {
  await host.inside("systemctl stop ssh.socket ssh.service 'session-*.scope'", { check: false });
  await until("ssh is closed", async () =>
    (await host.ssh("true", { check: false })).code === 255 ? true : undefined,
  );
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(1);
  const errors = preview.diagnostics.filter(({ severity }) => severity === "error").map(({ message }) => message);
  expect(errors.join("\n")).toContain(`${name}: the machine can't be reached, so nothing was looked at`);
});

function layersOf(faults: readonly Fault[]): string[] {
  return [...new Set(faults.map(({ layer }) => layer))].sort();
}

/** The program's file is sent again with its layer. */
function updates(faults: readonly Fault[], edge: readonly EdgeFault[]): string[] {
  const layers = layersOf(faults).flatMap((layer) => (layer === "bundle" ? ["bundle", "bundle-file"] : [layer]));
  return [...layers.map((layer) => `${name}-${layer}`), ...edge.map(({ resource }) => resource)]
    .map((resource) => `update ${resource}`)
    .sort();
}

/** Every tenth of a second a push from GitHub, until the work is done. */
async function whileDelivering(work: () => Promise<Run>): Promise<{ run: Run; statuses: number[] }> {
  const statuses: number[] = [];
  let over = false;
  const loop = (async () => {
    while (!over) {
      statuses.push((await straight(actors.github.v4[1])).status);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  try {
    return { run: await work(), statuses };
  } finally {
    over = true;
    await loop;
  }
}
