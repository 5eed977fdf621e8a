/**
 * One `up` on a freshly installed host: every layer in order, a clean audit that costs one connection, and deliveries
 * through all layers. hosts.test.ts has a host without IPv6.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Run } from "../../engine/engine.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { disconnect, sshWrapper } from "../ssh-wrapper.ts";
import { buildWorld, hostnameOf, type World } from "../world.ts";

const ssh = sshWrapper();
let host: Host;
let world: World;
let up: Run;

beforeAll(async () => {
  host = await bootHost({ name: "bare", release, variant: "bare" });
  world = await buildWorld([host], { path: [ssh.folder], starts: true });
  up = await world.stack.up();
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

/** What is printed beside warnings. */
const notes = ({ diagnostics }: Run): string[] =>
  diagnostics.filter(({ severity }) => severity === "info").map(({ message }) => message);

/** The number of logins in the journal of the host's sshd. */
const logins = async () =>
  Number(await host.read("journalctl --sync && journalctl --no-pager -o cat -u ssh | grep -c 'Accepted publickey'"));

test("up applies every layer to a bare host", () => {
  expect(up.code, up.stdout).toBe(0);
  expect(up.steps.filter(({ op }) => op !== "create")).toEqual([]);
  // The others are apt's.
  expect(notes(up).filter((text) => text.startsWith("bare: "))).toEqual([
    expect.stringMatching(/^bare: applied packages, .*, client-ca\.\nThe git host needs these webhooks/),
  ]);
});

test("each protection is active before what it protects, by the engine's steps, the host's stamps and Cloudflare's requests", async () => {
  const layers = [
    "packages",
    "origin-key",
    "origin-certificate",
    "secrets",
    "receiver-program",
    "receiver",
    "routing",
    "proxy",
    "firewall",
    "guard",
    "client-ca",
  ];
  const steps = up.steps.map((step) => step.name).filter((step) => step.startsWith("bare-"));
  const sent = layers.flatMap((layer) => (layer === "receiver-program" ? ["receiver-program-file", layer] : [layer]));
  expect(steps).toEqual(sent.map((layer) => `bare-${layer}`));
  const stamps = await host.read("find /var/lib/pushgate/stamps -type f -printf '%T@ %f\\n' | sort -n | cut -d' ' -f2");
  expect(stamps.split("\n")).toEqual(layers);
  // Except for the certificate that a layer of the host installs, Cloudflare changes only after the host is complete.
  const writes = world.api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
  expect(writes[0]).toBe("certificates");
  expect(writes.slice(-2)).toEqual(["dns_records", "dns_records"]);
  const guarded = up.steps.findLastIndex(({ name }) => name.endsWith("-guard"));
  const early = up.steps.slice(0, guarded).filter(({ type }) => type.startsWith("cloudflare:"));
  expect(early.map(({ name }) => name)).toEqual([`${hostnameOf(host)} origin certificate`]);
});

test("the audit right after up is clean and costs one connection; another up applies nothing", async () => {
  const before = await logins();
  await disconnect(host.alias);
  ssh.forget();
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  expect(notes(preview)).toEqual([]);
  expect(ssh.calls()).toEqual(["root@bare"]);
  expect(await logins()).toBe(before + 1);
  const applies = () => host.read("journalctl --no-pager -o cat -u pushgate-apply.service | grep -c Started");
  const ran = await applies();
  expect(Number(ran)).toBeGreaterThanOrEqual(10);
  const again = await world.stack.up();
  expect(again.code).toBe(0);
  expect(again.steps).toEqual([]);
  expect(notes(again)).toEqual([]);
  expect(await applies()).toBe(ran);
});

test.each([
  ["IPv4", actors.github.v4[0]],
  ["the range of 2026", actors.github.v4[2]],
  ["IPv6", actors.github.v6[0]],
])("the receiver accepts a signed push from GitHub over %s and spools it once", async (_, source) => {
  const before = await world.spooled(host);
  expect(await world.deliver({ source })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.spooled(host)).toHaveLength(before.length + 1);
});

test("the installed nginx serves nothing of its own, at once and after a reboot, and pushgate's does", async () => {
  const other = "systemctl is-enabled nginx.service; systemctl is-active nginx.service; ss -Hltn 'sport = :80'";
  expect(await host.read(`${other}; true`)).toBe("disabled\ninactive");
  await host.reboot();
  expect(await host.read(`${other}; true`)).toBe("disabled\ninactive");
  expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
});
