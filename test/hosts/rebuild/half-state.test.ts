/**
 * An apply of each layer that breaks at a step: deliveries and pages are served meanwhile and afterwards, and the next
 * apply finishes. The applies are the commands of the stack's state, run as the engine runs them, and repair manual changes.
 * walk.ts has the engine around them, push.test.ts removals that break. That each step of apply.sh itself may break is in
 * test/infra/apply.
 */
import { expect, test } from "vitest";
import { stateFolders } from "../../../infra/apply/layer.ts";
import { type Break, breakApplies, loosened, mendApplies } from "../broken-applies.ts";
import { rounds } from "../drift.ts";
import { run } from "../lab/process.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { deployedRebuild } from "./deployed.ts";

/** Where an apply breaks, as a share of its layer's own steps: the more it has done, the more there is to restore. */
const shares: readonly (readonly [how: Break, share: number])[] = [
  ["fails", 1],
  ["loses the connection", 0.5],
  ["is killed", 0.7],
];

const rebuild = await deployedRebuild("halves");
const { host, world } = rebuild;
const infra = new URL("../../../infra", import.meta.url).pathname;

type Inputs = { readonly interpreter: readonly string[]; readonly create: string; readonly stdin: string };

/** Layer -> its apply, in the order of the state. */
async function applies() {
  const { stdout } = await world.stack.pulumi("stack", "export", "--show-secrets", "--stack", "test");
  const { deployment } = JSON.parse(stdout) as { deployment: { resources: { urn: string; inputs: object }[] } };
  // Instead of a secret value the state has an object that holds it as JSON.
  const plain = (value: object | string) =>
    Object.hasOwn(Object(value), "plaintext") ? JSON.parse(Object(value).plaintext) : value;
  return deployment.resources.flatMap(({ urn, inputs }) => {
    const layer = new RegExp(`Command::${host.name}-(.*)`).exec(urn)?.[1];
    if (layer === undefined) return [];
    const named = Object.entries(inputs).map(([name, value]) => [name, plain(value)]);
    const { interpreter, create, stdin } = Object.fromEntries(named) as Inputs;
    const words = [...interpreter.slice(1), create];
    return [
      [layer, () => run(interpreter[0]!, words, { stdin, cwd: infra, env: world.stack.env, check: false })] as const,
    ];
  });
}

/** One that only makes or removes what is under way, as every layer's apply does. */
const common = new RegExp(`pushgate-new|${stateFolders.state}/(work|stamps|pending|made)`);

/** Their files alone call for few steps, or none. */
const withFewFiles = ["packages", "origin-key", "origin-certificate", "secrets", "site"];

test("an apply of each layer that breaks at a step leaves the former state serving, and the next one finishes", {
  timeout: 600_000,
}, async () => {
  const served = async () =>
    [await world.deliver(), await rebuild.visit("/"), await rebuild.visit("/", "docs")]
      .map(({ status }) => status)
      .join();
  // Every other layer on each release.
  const some = (await applies()).filter((_, i) => i % 2 === Number(release === "trixie"));
  for (const [turn, [layer, apply]] of some.entries()) {
    const others = rounds[2]!.mutations.filter(([of]) => of === layer && withFewFiles.includes(of));
    const change = () => host.inside([loosened(layer), ...others.map(([, script]) => script)].join("\n"));
    await change();
    await breakApplies(host, 0);
    expect(await apply()).toMatchObject({ code: 0 });
    const own = (await mendApplies(host)).flatMap((step, i) => (common.test(step) ? [] : [{ step, at: i + 1 }]));
    const [how, share] = shares[turn % shares.length]!;
    const { step, at } = own[Math.floor(share * (own.length - 1))]!;
    await change();
    await breakApplies(host, at, how);
    const { done, seen } = await repeatWhile(apply, served, 20);
    await mendApplies(host);
    const after = await repeatWhile(apply, served, 20);
    const answers = new Set([...seen, ...after.seen]);
    const what = `${layer} ${how} at ${step}: ${done.stderr}`;
    expect.soft([[...answers], after.done.code], what).toEqual([["202,200,200"], 0]);
  }
  const left = `find /etc /usr/local /srv ${stateFolders.state} -name '*.pushgate-new' -o -path ${stateFolders.state}/work`;
  expect(await host.read(left)).toBe("");
  await world.stack.cleanPreview();
});
