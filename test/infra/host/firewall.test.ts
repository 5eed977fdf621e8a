/** The rules in a real kernel: which sources reach which port through an interface, with and without a rule. */
import { expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { firewallLayer, firewallRules } from "../../../infra/host/firewall/firewall.ts";
import { loopback, networks, v4 } from "../../../infra/networks.ts";
import { example, exampleHost, foreignWorker } from "../../fixtures.ts";
import { cable, connect, inNamespace, needs, Root } from "./namespace.ts";

const layer = firewallLayer(example, exampleHost);
const rules = firewallRules(example, exampleHost);
const root = new Root();
const file = root.write(layer.files[0]!.path, rules);
const drift = root.moved(layer.files.find(({ path }) => path.endsWith("/firewall-drift"))!.text);
const driftScript = root.write("/usr/local/lib/pushgate/firewall-drift", drift, 0o755);
const origin = exampleHost.address;
const origin6 = exampleHost.address6!;
const port = exampleHost.originPort;
const receiver = sourceSets(example)[0]!.port;
const edge = "173.245.48.5";
const stranger = "198.51.100.77";
const stranger6 = "2001:db8:ffff::9";

needs("unshare", "ip", "nft", "perl");

test("only Cloudflare reaches the origin port, no address the receiver's, and all addresses other ports", () => {
  const without = (name: string) =>
    `nft -f ${root.write(name, rules.replace(`counter name ${name} drop`, `counter name ${name}`))}`;
  const others = [edge, stranger, foreignWorker, stranger6];
  const rows: [setup: string, atOrigin: string[], atReceiver: string[]][] = [
    ["", others, others],
    [`nft -f ${file}`, [edge, foreignWorker], []],
    // Without one of its drops.
    [without("not_edge"), others, []],
    [without("not_local"), [edge, foreignWorker], others],
  ];
  const ports = [port, receiver, 22];
  const tried = ports.flatMap((at) => others.map((from) => `${from},${from.includes(":") ? origin6 : origin},${at}`));
  const listeners = ports.flatMap((at) => [`listen,${origin},${at}`, `listen,${origin6},${at}`]);
  const { stdout, stderr } = inNamespace(`
${cable({ v4: origin, v6: origin6 }, { v4: [edge, stranger], v6: [foreignWorker, stranger6] })}
${connect} ${listeners.join(" ")} listen,${loopback.v4},${port}
${rows
  .map(
    ([setup]) => `${setup}
${connect} ${loopback.v4},${loopback.v4},${port}
nsenter --target "$far" --net ${connect} ${tried.join(" ")}`,
  )
  .join("\necho ====\n")}`);
  expect(stderr).toBe("");
  const reached = (text: string) =>
    [...text.matchAll(/^(\S+) \S+ (\d+) yes$/gm)].map(([, from, at]) => `${from} ${at}`);
  expect(stdout.split("====").map(reached)).toEqual(
    rows.map(([, atOrigin, atReceiver]) => [
      ...[loopback.v4, ...atOrigin].map((from) => `${from} ${port}`),
      ...[...atReceiver.map((from) => `${from} ${receiver}`), ...others.map((from) => `${from} 22`)],
    ]),
  );
});

test("loads in one transaction beside other tables, and drift reports what differs", () => {
  const broken = root.write("broken.nft", rules.replace(/\}\n$/, "  nonsense\n}\n"));
  const { stdout, stderr } = inNamespace(`
nft add table ip docker
nft add chain ip docker forward '{ type filter hook forward priority 0; policy drop; }'
nft list ruleset >${root.at("before")}
nft -f ${file}
nft list ruleset >${root.at("once")}
nft list table ip docker | diff ${root.at("before")} -
nft -f ${file}
nft list ruleset | diff ${root.at("once")} -
nft -f ${broken} 2>/dev/null || echo rejected
${driftScript}
nft insert rule inet pushgate input tcp dport ${port} accept
${driftScript}
nft -f ${file}
nft flush chain inet pushgate input
${driftScript} | cut -d ' ' -f 1
nft -f ${file}
nft delete element inet pushgate edge4 '{ ${v4(networks.cloudflare.cidrs)[0]} }'
${driftScript} | cut -c 1-8
nft flush ruleset
${driftScript}
echo nonsense >>${file}
${driftScript} | cut -c 1-20`);
  expect(stderr).toBe("");
  expect(stdout.split("\n")).toEqual([
    ...["rejected", "as declared", `added: tcp dport ${port} accept (differs)`],
    ...["missing:", "missing:", "absent", "absent"],
  ]);
});
