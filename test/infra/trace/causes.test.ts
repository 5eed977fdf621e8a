/** What a host reports of itself explains an outcome that is left, and never adds or removes one. */
import { expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import { causes } from "../../../infra/trace/causes.ts";
import type { Evidence, HostState } from "../../../infra/trace/evidence.ts";
import { outcomes } from "../../../infra/trace/outcomes.ts";
import { verdict } from "../../../infra/trace/verdict.ts";

const [github, docs] = [units.socket("github"), units.socket("docs")];
const room = { freeKiB: 1 << 20, freeFiles: 1000, readOnly: false };
const readOnly = { ...room, readOnly: true };
const state = (change: Partial<HostState> = {}): HostState => ({
  ...{ host: "web1", ssh: "ssh root@web1", differences: [], findings: [], drops: [], spool: room, logs: room },
  sockets: Object.entries({ site: github, docs }).map(([hook, unit]) => ({ unit, hooks: [hook] })),
  ...change,
});
const line = { status: 503, up_status: "504", up_connect: "-", in_ranges: "1", limit: "PASSED", client: "192.0.2.9" };
const sent: Evidence = { time: "2026-11-01T10:00:00.000Z", hook: "site", nginx: line, receiver: "none" };
function of(name: string, change: Partial<HostState>, attempt: Evidence = sent): string[] {
  const outcome = outcomes.find((one) => one.name === name)!;
  const found = causes(outcome, { ...attempt, state: [state(change)] });
  return found.map(({ layer, what, fix }) => `${layer}: ${what} => ${fix}`);
}
const differs = (layer: string, ...texts: (string | Partial<HostState["differences"][number]>)[]) => ({
  differences: texts.map((text) => ({ layer, what: "x", ...(typeof text === "string" ? { what: text } : text) })),
});
const fault = (what: string, fix: string, code = "slice") => ({
  findings: [{ time: "2026-11-01T12:00:00.000Z", code, what, fix }],
});

const systemctl = (words: string) => `ssh root@web1 systemctl ${words}`;
const free = "Free space; this lists the largest folders: ssh root@web1 'du -xm / 2>/dev/null | sort -n | tail -n 20'";
const kernel = "See why the kernel made it so: ssh root@web1 journalctl --dmesg --priority=err";

const inactive = { about: "pushgate-nginx.service", found: "enabled inactive" };
const conf = { path: "/etc/pushgate/nginx.conf" };
const failed = { about: github, found: "enabled failed in" };
const tables = "a rule of another table may drop Cloudflare's connections: x";
const pass = "Let the origin port pass there: ssh root@web1 nft list ruleset";
const little = { ...room, freeKiB: 12 };
test.each<[outcome: string, change: Partial<HostState>, layer: string, what: string, fix: string]>([
  ["firewall", differs("proxy", inactive), "6 nginx", "x", systemctl("start pushgate-nginx.service")],
  ["firewall", differs("proxy", "a", conf, inactive), "6 nginx", "a; 2 more of proxy differ", "npx pulumi up"],
  ["firewall", differs("firewall", "table: absent"), "5 firewall", "", systemctl(`restart ${units.firewall}`)],
  ["firewall", { drops: ["x"] }, "5 firewall", tables, pass],
  ["origin certificate", differs("origin-certificate", "old"), "4 Cloudflare to origin", "old", "npx pulumi up"],
  ["unreachable socket", fault("no table", "nft", "firewall"), "5 firewall", "the guard: no table", "nft"],
  ["unreachable socket", differs("receiver", failed), "7 systemd", "", systemctl(`restart ${units.receiver}`)],
  ["not spooled", { spool: little }, "8 receiver", "the spool's file system has 12 KiB and 1000 files left", free],
  ["nginx failed", { logs: little }, "6 nginx", "the file system of nginx's logs has 12 KiB", free],
  ["nginx failed", { logs: readOnly }, "6 nginx", "the file system of nginx's logs is read-only", kernel],
  ["receiver timeout", differs("receiver", conf), "8 receiver", "x", "npx pulumi up"],
])("a state that is broken has its own cause and fix: %s %#", (name, change, layer, what, fix) => {
  const [cause = "", ...more] = of(name, change);
  expect([cause.startsWith(`${layer}: ${what}`), cause.endsWith(` => ${fix}`), more]).toEqual([true, true, []]);
});

test("a host in order explains nothing, and neither does what cannot concern the delivery", () => {
  for (const { name } of outcomes) expect(of(name, {})).toEqual([]);
  for (const one of [{ about: docs }, { path: `/etc/systemd/system/${docs}.d/x.conf` }])
    expect(of("unreachable socket", differs("receiver", one))).toEqual([]);
  expect(of("signature", differs("firewall", "table inet pushgate: absent"))).toEqual([]);
  expect(of("firewall", fault("x", "y"))).toEqual([]);
  for (const place of ["spool", "logs"]) expect(of("firewall", { [place]: readOnly })).toEqual([]);
  expect(of("not spooled", { spool: { ...room, freeKiB: 1024, freeFiles: 100 } })).toEqual([]);
  const { spool: _, ...withoutSpool } = state();
  const notSpooled = outcomes.find(({ name }) => name === "not spooled")!;
  expect(causes(notSpooled, { ...sent, state: [withoutSpool] })).toEqual([]);
});

test("a closed port points to nginx first, silence to the firewall", () => {
  const both = ["firewall", "proxy"].flatMap((layer) => differs(layer, "x").differences);
  const first = (status: number) =>
    of("firewall", { differences: both }, { ...sent, answer: { status, headers: {} } })[0];
  expect(first(521)).toMatch(/^6 nginx/);
  expect(first(522)).toMatch(/^5 firewall/);
});

test("a finding of the guard is in force until the next one, and the last one still is; only a fault is a cause", () => {
  const found = (...findings: (readonly [string, string])[]) => {
    const all = findings.map(([time, what]) => ({ time, code: what, what, fix: what === "proven" ? "" : "do" }));
    return of("unreachable socket", { findings: all, sockets: [] });
  };
  const because = (what: string) => `7 systemd: the guard: ${what} => do`;
  const [before, at, after] = ["2026-11-01T08:00:00.000Z", "2026-11-01T10:00:05.000Z", "2026-11-01T10:00:05.001Z"];
  expect(found([before, "a"], [after, "proven"])).toEqual([because("a")]);
  expect(found([before, "a"], [at, "proven"])).toEqual([]);
  expect(found([before, "proven"], [after, "b"])).toEqual([because("b")]);
  expect(found([before, "a"], [after, "b"])).toEqual([because("b"), because("a")]);
  // Still so, and so at the delivery: one cause.
  expect(found([before, "a"])).toEqual([because("a")]);
  expect(found(["unknown time", "a"], [after, "proven"])).toEqual([]);
});

test("whatever a host reports, the outcomes that are left and the certainty stay the same", () => {
  const broken = state({
    ...{ ...fault("x", "y"), drops: ["inet other in: drop"], spool: readOnly },
    differences: ["firewall", "proxy", "receiver", "routing"].map((layer) => ({ layer, what: "x" })),
  });
  for (const seen of [{}, sent, { ...sent, answer: { status: 522, headers: {} } }] as Evidence[]) {
    const { causes: none, ...plain } = verdict(seen);
    expect(none).toEqual([]);
    for (const host of [state(), broken, state({ unreachable: "gone" })]) {
      const { causes: _, ...explained } = verdict({ ...seen, state: [host] });
      expect(explained).toEqual(plain);
    }
  }
});

test.each([
  ["origin-certificate, proxy", ["origin certificate"]],
  ["firewall, proxy", ["not from Cloudflare"]],
  ["receiver, proxy", ["outside of the ranges"]],
  ["receiver, routing, proxy", ["unreachable socket"]],
  ["proxy", ["client certificate", "no hook", "large body", "too many requests"]],
  ["receiver", ["closed connection", "no such hook", "not spooled", "a bug"]],
])("a difference of %s, the likeliest first, may explain each of %j", (layers, names) => {
  const every = ["egress", "proxy", "routing", "receiver", "origin-certificate", "firewall", "guard"];
  const differences = every.map((layer) => ({ layer, what: `${layer} differs` }));
  for (const name of names) {
    const found = of(name, { differences, sockets: [] });
    expect(found.map((cause) => /: (\S+) differs/.exec(cause)?.[1]).join(", "), name).toBe(layers);
  }
});

test("a difference of the other address family concerns no delivery where the family is known", () => {
  const both = differs("routing", ...["IPv4", "IPv6"].map((about) => ({ what: `${about} rule`, about })));
  const found = (client: string) => of("unreachable socket", both, { ...sent, nginx: { ...line, client } });
  const restart = systemctl(`restart ${units.routing}`);
  expect(found("192.0.2.1")).toEqual([`7 systemd: IPv4 rule => ${restart}`]);
  expect(found("2001:db8::1")).toEqual([`7 systemd: IPv6 rule => ${restart}`]);
  expect(found("unknown")).toEqual([`7 systemd: IPv4 rule; 1 more of routing differ => ${restart}`]);
});

test("the host's own request to nginx meets a table that drops, too", () => {
  const found = (about: string, ...drops: string[]) =>
    of("another program on the origin port", { ...differs("proxy", { about }), drops }).length;
  expect([found("origin port"), found("origin port", "drop"), found("pushgate-nginx.service", "drop")]).toEqual([
    1, 0, 1,
  ]);
});

test("a host that ssh does not reach explains what Cloudflare cannot reach either", () => {
  const explained = outcomes.filter(({ name }) => of(name, { unreachable: "gone" }).length > 0);
  expect(explained.map(({ name }) => name)).toEqual(["no route", "firewall"]);
  const fix = "Start the host if it is off, else correct what ssh reports.";
  expect(of("firewall", { unreachable: "gone" })).toEqual([`5 firewall: ssh, too: gone => ${fix}`]);
});
