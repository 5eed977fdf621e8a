/**
 * Deliveries keep coming while `up` changes what they pass through: none is lost, and a range that was taken away is
 * refused at once, one that was added is admitted at once. systemd 257 keeps the former list in force until something
 * starts in the sockets' slice, so this is asked of the machine itself and not of its units.
 */
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { paths } from "../../../infra/host/paths.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { type Answer, hostnameOf, type World } from "../world.ts";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const [first] = actors.gitlab.v4;
const [second] = actors.bitbucket.v4;
const senders = [...actors.github.v4, ...actors.github.v6];

let host: Host;
let world: World;
let program: string;

beforeAll(async () => {
  const deployed = await deployedWorld("load");
  world = deployed;
  [host] = deployed.hosts;
  program = mkdtempSync(join(tmpdir(), "pushgate-program-"));
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
  rmSync(program, { recursive: true, force: true });
});

/** The same program with another receiver: a comment that the bundle keeps. */
function rebuild(): void {
  for (const name of ["infra", "service", "package.json", "tsconfig.json"])
    cpSync(join(repository, name), join(program, name), { recursive: true });
  symlinkSync(join(repository, "node_modules"), join(program, "node_modules"));
  appendFileSync(join(program, "service/receiver/main.ts"), "\n/*! another version */\n");
  const file = join(world.stack.folder, "Pulumi.yaml");
  const yaml = parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  writeFileSync(file, stringify({ ...yaml, main: join(program, "infra/index.ts") }));
}

/** Who may deliver the hook "docs" from now on; everything else as it was. */
function admit(source: string): void {
  const { config } = parse(readFileSync(world.stack.stackFile, "utf8")) as { config: Record<string, unknown> };
  const hooks = config["pushgate:hooks"] as Record<string, unknown>[];
  world.stack.configure({
    "pushgate:hooks": hooks.map((hook) => (hook.name === "docs" ? { ...hook, sources: [`${source}/32`] } : hook)),
  });
}

/** A push to "docs" as the edge hands it on, without the edge's own rules: what the machine alone makes of a source. */
async function pushed(source: string): Promise<Pick<Answer, "status" | "servedBy">> {
  const [leaf] = world.api.zone.origin_pulls.hostname_certificates;
  const sent = delivery({
    hook: "docs",
    secret: secrets.docs.current,
    source,
    host: hostnameOf(host),
    headers: { "cf-connecting-ip": source },
  });
  const tls = { cert: leaf!.certificate, key: leaf!.private_key };
  const { status, servedBy } = await world.contact(host, actors.edge.v4[0], sent, tls);
  return { status, servedBy };
}

const accepted = { status: 202, servedBy: "pushgate-receiver" };
/** By the proxy, as the kernel dropped its connection to the socket. */
const refused = { status: 403, servedBy: "pushgate-proxy" };

const installed = () => host.read(`sha256sum ${paths.receiver}`);
/** Since when the hooks' sockets listen: a restart would lose what waits in them. */
const listening = () => host.read("systemctl show -p Id -p ActiveEnterTimestampMonotonic 'pushgate-receiver-*.socket'");

/** Each sender one delivery after the other, `least` in all as fast as they go, then ten a second until `work` is done. */
async function deliverDuring<T>(least: number, work: () => Promise<T>) {
  const answers: Answer[] = [];
  let over = false;
  const loops = senders.map(async (source) => {
    while (!over || answers.length < least) {
      answers.push(await world.deliver({ source }));
      if (answers.length >= least) await sleep(100);
    }
  });
  try {
    return { done: await work(), answers };
  } finally {
    over = true;
    await Promise.all(loops);
  }
}

/** The answers that were not a 202, by what they were. */
const others = (answers: readonly Answer[]) =>
  answers.filter(({ status }) => status !== 202).map(({ status, servedBy, error }) => ({ status, servedBy, error }));

test("2,000 deliveries while up changes a range, the program and the proxy's configuration: all accepted", async () => {
  expect(await pushed(first)).toEqual(accepted);
  expect(await pushed(second)).toEqual(refused);
  const before = { program: await installed(), sockets: await listening(), spool: (await world.spooled(host)).length };

  rebuild();
  admit(second);
  world.stack.configure({ "pushgate:limits": { bodyBytes: 300_000, proxyBurst: 400 } });
  const { done: up, answers } = await deliverDuring(2000, () => world.stack.up());

  expect(up.code, up.stdout).toBe(0);
  const changed = up.steps.map(({ op, name }) => `${op} ${name}`).sort();
  const layers = ["proxy", "receiver", "receiver-program", "receiver-program-file"].map(
    (layer) => `update ${host.name}-${layer}`,
  );
  expect(changed).toEqual(["update custom rules", ...layers]);
  expect(await installed()).not.toBe(before.program);
  expect(answers.length).toBeGreaterThanOrEqual(2000);
  expect(others(answers)).toEqual([]);
  expect((await world.spooled(host)).length - before.spool).toBe(answers.length);
  expect(await listening()).toBe(before.sockets);
  expect([await pushed(first), await pushed(second)]).toEqual([refused, accepted]);
});

test("a changed range alone is in force when up is over, and nobody waits for it", async () => {
  const sockets = await listening();
  const service = () => host.read("systemctl show -p MainPID pushgate-receiver.service");
  const running = await service();
  admit(first);
  const { done: up, answers } = await deliverDuring(0, () => world.stack.up());
  expect([await pushed(first), await pushed(second)]).toEqual([accepted, refused]);
  expect(up.code, up.stdout).toBe(0);
  expect(others(answers)).toEqual([]);
  expect(await listening()).toBe(sockets);
  expect(await service()).toBe(running);
});
