/**
 * A deployed host on which test files make faults for `npx pushgate trace`: a row makes one, a delivery meets it, trace
 * names the layer, the cause and a fix, that fix is applied, and the next delivery is accepted.
 */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { units } from "../../infra/host/paths.ts";
import { type Traced, type Verdict, verdict } from "../../infra/trace/verdict.ts";
import { type Change, delivery } from "../fakes/deliveries.ts";
import { deployedWorld } from "./deployed.ts";
import * as fault from "./faults.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { run } from "./lab/process.ts";
import { type Answer, edgeBack, hostnameOf, type World } from "./world.ts";

export let host: Host;
export let world: World;
const rarely = `/usr/local/lib/systemd/system/${units.guardTimer}.d/rarely.conf`;

export async function startTracing(alias: string): Promise<void> {
  world = await deployedWorld(alias);
  host = world.hosts[0]!;
  // Else the guard repairs some faults within a minute. It still runs when an apply or a boot starts it. `up` would remove
  // this file below /etc.
  await host.writeFile(rarely, "[Timer]\nOnCalendar=\nOnCalendar=yearly\n");
  await host.inside("systemctl daemon-reload");
}

export async function endTracing(): Promise<void> {
  try {
    await host?.inside(`test -e ${rarely}`);
  } finally {
    await world?.close();
    await host?.kill();
  }
}

/** The same host, which a test has booted again. */
export function goOnWith(booted: Host): void {
  host = booted;
}

export const unanswered: Answer = { status: 0, servedBy: "", headers: {}, body: "" };
type Looks = "by id and answer" | "by id" | "by answer";

/** Traces what was sent by its id and by what a git host's page would show of the answer. */
export async function tracedAs(id: string, answer: Answer, looks: Looks = "by id and answer") {
  const headers = Object.entries({ "x-served-by": "", ...answer.headers }).flatMap(([name, value]) => [
    "--header",
    `${name}: ${value}`,
  ]);
  const { code, stdout, stderr } = await world.stack.pushgate(
    "trace",
    "--json",
    ...(looks === "by answer" ? [] : ["--delivery", id]),
    ...(looks === "by id" ? [] : ["--status", String(answer.status), ...headers]),
  );
  expect(stderr).toBe("");
  const found = JSON.parse(stdout) as Traced[];
  expect(found).toHaveLength(1);
  return { code, ...found[0]!, names: found[0]!.outcomes.map(({ name }) => name) };
}

export async function traced(change: Change = {}, looks?: Looks) {
  const id = randomUUID();
  const answer = await world.deliver({ ...change, headers: { "x-github-delivery": id, ...change.headers } });
  const { code, certainty, names } = await tracedAs(id, answer, looks);
  return { code, certainty, names };
}

export const accepted = { code: 0, certainty: "certain", names: ["accepted"] };

type Step = () => Promise<unknown>;
type Fix = "up" | "ssh" | Step;
export type Row = {
  readonly what: string;
  readonly make?: Step;
  readonly change?: Change;
  /** Sends the delivery; without it, `change` goes to Cloudflare. */
  readonly send?: (id: string) => Promise<Answer>;
  readonly name: string;
  /** Where sources are missing that this test could give: outcomes that look alike without them. */
  readonly alike?: readonly string[];
  readonly certainty?: Verdict["certainty"];
  readonly cause?: RegExp;
  readonly fix: RegExp;
  /** How the fix is applied: by the command that is printed, or by what an operator would do. Left out: by nothing. */
  readonly by?: Fix;
};

export const sh = (script: string) => () => host.inside(`set -e\n${script}`);
export const edited = (path: string, change: (text: string) => string, then: Step) => async () => {
  await host.writeFile(path, change(await host.readFile(path)));
  await then();
};
export const reload = () => fault.reloadProxy(host);
export const github6 = actors.github.v6[0];

/** The fix that most faults have. */
export const up = /^npx pulumi up$/;

/** A request as it leaves Cloudflare, or as it does not. */
export const straight = (id: string, from: string, more: Record<string, string> = {}, patience = 5_000) => {
  const headers = { "x-github-delivery": id, ...more };
  return world.contact(host, from, delivery({ host: hostnameOf(host), headers }), world.client(), patience);
};
/** The lab's git hosts give up after 5 s, before nginx does after 9. */
export const patient = (id: string) => straight(id, edgeBack.v4, { "cf-connecting-ip": actors.github.v4[0] }, 20_000);

const sources = ["answer", "nginx", "receiver", "state"] as const;
const rank = { certain: 2, likely: 1, unknown: 0 } as const;

/** With each source withheld, and each two, the verdict is the same or less certain, and the true outcome stays. */
export function lessCertain(seen: Traced, name: string): void {
  const full = verdict(seen);
  for (const first of sources)
    for (const second of sources) {
      const withheld = new Set<string>([first, second]);
      const left = Object.fromEntries(Object.entries(seen).filter(([source]) => !withheld.has(source)));
      const { certainty, outcomes, causes } = verdict(left);
      expect(outcomes).toEqual(expect.arrayContaining([...full.outcomes]));
      expect(outcomes.map((one) => one.name)).toContain(name);
      expect(rank[certainty]).toBeLessThanOrEqual(rank[full.certainty]);
      if (withheld.has("state")) expect(causes).toEqual([]);
    }
}

export const applied = async (): Promise<void> => {
  const { code, stdout } = await world.stack.up();
  expect(code, stdout).toBe(0);
};

export async function meets(row: Row): Promise<void> {
  const { make, send, change, name, alike = [], certainty = alike.length === 0 ? "certain" : "likely", by } = row;
  const id = randomUUID();
  const seen = async () => {
    await make?.();
    const sent = () => world.deliver({ ...change, headers: { "x-github-delivery": id, ...change?.headers } });
    return tracedAs(id, await (send?.(id) ?? sent()));
  };
  const check = async () => {
    const { code, names, causes, ...found } = await seen();
    expect({ code, certainty: found.certainty, names: [...names].sort() }, JSON.stringify(found)).toEqual({
      code: certainty === "unknown" ? 3 : 1,
      certainty,
      names: [name, ...alike].sort(),
    });
    const [own] = causes.filter(({ outcome }) => outcome === name);
    const because = own && `${own.layer}: ${own.what}`;
    if (row.cause === undefined) expect(because).toBeUndefined();
    else expect(because).toMatch(row.cause);
    const printed = own?.fix ?? found.outcomes.find((one) => one.name === name)?.fix ?? "";
    expect(printed).toMatch(row.fix);
    lessCertain({ ...found, causes }, name);
    return printed;
  };
  // What a failed row leaves would fail all that follow.
  const printed = await check().catch(async (error: unknown) => {
    await (typeof by === "function" ? by() : by && world.stack.up());
    throw error;
  });
  if (typeof by === "function") await by();
  if (by === "ssh") await run("sh", ["-c", printed]);
  if (by === "up") {
    expect(printed).toMatch(/^npx pulumi up\b/);
    await applied();
  }
  // A source of the same family: what is repaired is the way of this delivery.
  const next = change?.source === github6 ? { source: github6 } : {};
  expect((await world.deliver(next)).status).toBe(202);
}
