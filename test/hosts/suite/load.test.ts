/**
 * Deliveries arrive while `up` changes the layers that they pass through: none is lost, a removed range is rejected at
 * once, and an added range is accepted at once. systemd 257 keeps the former list in force until a unit starts in the
 * sockets' slice, so this test sends deliveries instead of reading units.
 */
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { paths } from "../../../infra/host/paths.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { edit } from "../../scenarios.ts";
import { deployedWorld } from "../deployed.ts";
import { actors } from "../lab/net.ts";
import { type Answer, hostnameOf } from "../world.ts";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const [added] = actors.bitbucket.v4;
const [, , removed] = actors.github.v4;
const senders = [...actors.github.v4.slice(0, 2), ...actors.github.v6];

const { world, host } = await deployedWorld("load");
const program = mkdtempSync(join(tmpdir(), "pushgate-program-"));
afterAll(() => rmSync(program, { recursive: true }));

/** Changes the receiver's bundle in a copy of the program: adds a comment that esbuild keeps. */
function rebuild(): void {
  for (const name of ["infra", "service", "package.json", "tsconfig.json"])
    cpSync(join(repository, name), join(program, name), { recursive: true });
  symlinkSync(join(repository, "node_modules"), join(program, "node_modules"));
  appendFileSync(join(program, "service/receiver/main.ts"), "\n/*! another version */\n");
  const file = join(world.stack.folder, "Pulumi.yaml");
  const yaml = parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  writeFileSync(file, stringify({ ...yaml, main: join(program, "infra/index.ts") }));
}

/** Replaces the range of `removed` among those that GitHub publishes by `added`, in the copy of the program. */
function changeRange(): void {
  const text = readFileSync(join(repository, "infra/networks.ts"), "utf8");
  writeFileSync(join(program, "infra/networks.ts"), edit(text, "9.234.98.160/28", `${added}/32`));
}

/** Delivers a push to "site" as Cloudflare forwards it, but without its rules, so that the host alone decides. */
async function pushed(source: string): Promise<Pick<Answer, "status" | "servedBy">> {
  const sent = delivery({
    hook: "site",
    secret: secrets.site.current,
    source,
    host: hostnameOf(host),
    headers: { "cf-connecting-ip": source },
  });
  const { status, servedBy } = await world.contact(host, actors.edge.v4[0], sent, world.client());
  return { status, servedBy };
}

const accepted = { status: 202, servedBy: "pushgate-receiver" };
/** nginx's answer if the kernel drops its connection to the socket. */
const rejected = { status: 403, servedBy: "pushgate-proxy" };

const installed = () => host.read(`sha256sum ${paths.receiver}`);
/** The start of the receiver's sockets: a restart would lose the connections that wait in them. */
const listening = async () => {
  const shown = await host.read("systemctl show -p Id -p ActiveEnterTimestampMonotonic 'pushgate-receiver-*.socket'");
  // systemd lists the units of a pattern in any order.
  return shown.trim().split("\n\n").sort();
};

/** Each sender delivers in sequence: 2,000 deliveries in all at full speed, then ten per second until `work` ends. */
async function deliverDuring<T>(work: () => Promise<T>) {
  const answers: Answer[] = [];
  let over = false;
  const loops = senders.map(async (source) => {
    while (!over || answers.length < 2000) {
      answers.push(await world.deliver({ source }));
      if (answers.length >= 2000) await sleep(100);
    }
  });
  try {
    return { done: await work(), answers };
  } finally {
    over = true;
    await Promise.all(loops);
  }
}

test("the receiver accepts all of 2,000 deliveries while up changes a range, the program and nginx's configuration", async () => {
  expect([await pushed(removed), await pushed(added)]).toEqual([accepted, rejected]);
  const before = { program: await installed(), sockets: await listening(), spool: (await world.spooled(host)).length };

  rebuild();
  changeRange();
  world.stack.configure({ "pushgate:limits": { bodyBytes: 300_000, proxyBurst: 400 } });
  const { done: up, answers } = await deliverDuring(() => world.stack.up());

  expect(up.code, up.stdout).toBe(0);
  const changed = up.steps.map(({ op, name }) => `${op} ${name}`).sort();
  const layers = ["proxy", "receiver"].map((layer) => `update ${host.name}-${layer}`);
  expect(changed).toEqual(["update custom rules", ...layers]);
  expect(await installed()).not.toBe(before.program);
  expect(answers.length).toBeGreaterThanOrEqual(2000);
  expect(answers.filter(({ status }) => status !== 202)).toEqual([]);
  expect((await world.spooled(host)).length - before.spool).toBe(answers.length);
  expect(await listening()).toEqual(before.sockets);
  expect([await pushed(removed), await pushed(added)]).toEqual([rejected, accepted]);
});
