/**
 * Two machines as they were installed, one of them without IPv6, and one `up`: every layer in order, a clean audit that
 * costs one connection, a delivery through the whole chain.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { pingPayload } from "../../deliveries.ts";
import type { Run } from "../../pulumi/engine.ts";
import { secrets } from "../../stack-file.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { run } from "../lab/process.ts";
import { release } from "../release.ts";
import { buildWorld, hostnameOf, type World } from "../world.ts";
import { type Mode, sshWrapper } from "../wrapper.ts";

const ssh = sshWrapper();
let host: Host;
let old: Host;
let world: World;
let up: Run;

beforeAll(async () => {
  [host, old] = await Promise.all([
    bootHost({ name: "bare", release, variant: "bare" }),
    bootHost({ name: "no-ipv6", release, variant: "packages", noIpv6: true }),
  ]);
  world = await buildWorld([host, old], { path: [ssh.folder] });
  up = await world.stack.up();
});

afterAll(async () => {
  await world?.close();
  await Promise.all([host?.kill(), old?.kill()]);
});

const seconds: Record<Mode, number[]> = { pass: [], record: [], replay: [] };

/** A preview in sync and from a cold start, as an operator's first of the day is: no connection is there to be reused. */
async function audit(mode: Mode): Promise<void> {
  for (const { name } of [host, old]) {
    const master = ["-o", "ControlPath=~/.ssh/pushgate-%C", "-O", "exit", `root@${name}`];
    await run("ssh", master, { check: false });
  }
  ssh.mode(mode);
  ssh.forget();
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  expect(ssh.calls().sort()).toEqual(["root@bare", "root@no-ipv6"]);
  seconds[mode].push(preview.seconds);
}

/** Of each machine, by its own sshd. */
const logins = () =>
  Promise.all(
    [host, old].map(async (machine) =>
      Number(await machine.read("journalctl --no-pager -o cat -u ssh | grep -c 'Accepted publickey'")),
    ),
  );

test("a bare machine: every layer is applied", () => {
  expect(up.code, up.stdout).toBe(0);
  expect(up.steps.filter(({ op }) => op !== "create")).toEqual([]);
});

test("what protects stands before what it protects: the engine's steps, the machine's stamps, the edge's requests", async () => {
  const layers = [
    "packages",
    "keys",
    "certificate",
    "secrets",
    "bundle",
    "receiver",
    "routing",
    "proxy",
    "firewall",
    "guard",
    "pulls",
  ];
  for (const { name } of [host, old]) {
    const steps = up.steps.map((step) => step.name).filter((step) => step.startsWith(`${name}-`));
    expect(steps).toEqual(
      layers
        .flatMap((layer) => (layer === "bundle" ? ["bundle-file", layer] : [layer]))
        .map((layer) => `${name}-${layer}`),
    );
  }
  for (const machine of [host, old]) {
    const stamps = await machine.read(
      "find /var/lib/pushgate/stamps -type f -printf '%T@ %f\\n' | sort -n | cut -d' ' -f2",
    );
    expect(stamps.split("\n")).toEqual(layers);
  }
  const edge = up.steps
    .filter(({ type }) => type.startsWith("cloudflare:"))
    .map(({ type }) => type.split("/").at(-1)!.split(":")[1]!);
  const guarded = up.steps.findLastIndex(({ name }) => name.endsWith("-guard"));
  const signed = edge.filter((type) => type === "OriginCaCertificate").length;
  expect(signed).toBe(2);
  // But for the certificates that the machines' own layers install, nothing at the edge before the last machine stands.
  const after = up.steps.slice(guarded + 1);
  expect(after.filter(({ type }) => type.startsWith("cloudflare:"))).toHaveLength(edge.length - signed);
  const records = edge.filter((type) => type === "DnsRecord").length;
  expect(records).toBe(3);
  expect(edge.slice(-records)).toEqual(Array(records).fill("DnsRecord"));

  const writes = world.api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
  expect(writes.slice(0, 2)).toEqual(["certificates", "certificates"]);
  expect(writes.slice(-records)).toEqual(Array(records).fill("dns_records"));
});

test("a machine without IPv6 is warned of with the cure, and gets no address of that family", () => {
  const said = up.diagnostics.filter(({ severity }) => severity === "warning").map(({ message }) => message);
  expect(said.filter((text) => text.includes("no IPv6"))).toEqual([
    expect.stringMatching(/^no-ipv6: no IPv6 on this machine: .*lo\.disable_ipv6=0/),
  ]);
  const records = up.steps
    .filter(({ type }) => type.endsWith(":DnsRecord"))
    .map(({ name }) => name)
    .sort();
  expect(records).toEqual([`${hostnameOf(host)} A`, `${hostnameOf(host)} AAAA`, `${hostnameOf(old)} A`]);
});

test("the audit right after finds nothing and costs one connection a machine; another up runs nothing", async () => {
  const before = await logins();
  await audit("record");
  expect(await logins()).toEqual(before.map((count) => count + 1));
  const applies = () => host.read("journalctl --no-pager -o cat -u pushgate-apply.service | grep -c Started");
  const ran = await applies();
  expect(Number(ran)).toBeGreaterThanOrEqual(10);
  const again = await world.stack.up();
  expect(again.code).toBe(0);
  expect(again.steps).toEqual([]);
  expect(await applies()).toBe(ran);
});

test.each([
  ["IPv4", actors.github.v4[0]],
  ["the range of 2026", actors.github.v4[2]],
  ["IPv6", actors.github.v6[0]],
])("a signed push from GitHub over %s is accepted and lies in the spool once", async (_, source) => {
  const before = await world.spooled(host);
  expect(await world.deliver({ source })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.spooled(host)).toHaveLength(before.length + 1);
});

test("a push from a self-hosted git host reaches its own hook", async () => {
  const answer = await world.deliver({ hook: "docs", secret: secrets.docs.current, source: actors.gitlab.v4[0] });
  expect(answer).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.spooled(host, "docs")).toHaveLength(1);
});

test("the machine without IPv6 accepts what reached the edge over IPv4, and names itself over IPv6", async () => {
  const host = hostnameOf(old);
  expect(await world.deliver({ host })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.spooled(old)).toHaveLength(1);
  const six = await world.deliver({ host, source: actors.github.v6[0] });
  expect(six).toMatchObject({ status: 503, servedBy: "pushgate-proxy" });
});

test("a ping is answered 200, and nothing is spooled", async () => {
  const before = await world.spooled(host);
  const answer = await world.deliver({ event: "ping", payload: pingPayload() });
  expect(answer).toMatchObject({ status: 200, servedBy: "pushgate-receiver" });
  expect(JSON.parse(answer.body)).toMatchObject({ status: "ignored", reason: expect.stringContaining("ping") });
  expect(await world.spooled(host)).toEqual(before);
});

test("a cold audit takes at most half as long again as the program without its probes, and a handshake", async () => {
  // In turns, so that whatever else this machine does slows both alike.
  for (const mode of ["replay", "record", "replay", "record", "replay"] as const) await audit(mode);
  const handshakes: number[] = [];
  for (let i = 0; i < 3; i++) {
    const started = performance.now();
    await host.ssh("true");
    handshakes.push((performance.now() - started) / 1000);
  }
  ssh.mode("pass");
  // The quickest of each: whatever else this machine does only ever adds.
  const whole = Math.min(...seconds.record);
  const without = Math.min(...seconds.replay);
  const handshake = Math.min(...handshakes);
  const told = (name: string, of: number[]) => `${name} ${of.map((one) => one.toFixed(2)).join(" ")}`;
  console.log(
    [told("audit", seconds.record), told("without probes", seconds.replay), told("handshake", handshakes)].join(", "),
    "s",
  );
  expect(whole).toBeLessThanOrEqual(1.5 * without + handshake);
});

test("the cure of the warning: IPv6 on the loopback alone, and another up", async () => {
  await old.inside("sysctl -q net.ipv6.conf.lo.disable_ipv6=0");
  const again = await world.stack.up();
  expect(again.code, again.stdout).toBe(0);
  expect(again.diagnostics.filter(({ message }) => message.includes("no IPv6"))).toEqual([]);
  const answer = await world.deliver({ host: hostnameOf(old), source: actors.github.v6[0] });
  expect(answer).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
});
