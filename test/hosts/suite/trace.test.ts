/**
 * `npx pushgate trace` where the kernel or systemd decides what it sees: a row makes a fault, a delivery meets it, trace
 * names layer, cause and fix, that fix is applied, and the next delivery is accepted. Each outcome by its sources is in
 * test/infra/trace, and what the command reads of logs and of other tables in test/infra/cli/trace.
 */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import type { Traced } from "../../../infra/trace/verdict.ts";
import type { Change } from "../../fakes/deliveries.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import { actors } from "../lab/net.ts";
import { run } from "../lab/process.ts";
import type { Answer } from "../world.ts";

const { world, host } = await deployedWorld("trace");
const rarely = `/usr/local/lib/systemd/system/${units.guardTimer}.d/rarely.conf`;

beforeAll(async () => {
  // Else the guard repairs some faults within a minute. It still runs when an apply starts it. `up` would remove this
  // file below /etc.
  await host.writeFile(rarely, "[Timer]\nOnCalendar=\nOnCalendar=yearly\n");
  await host.inside("systemctl daemon-reload");
});
/** Traces by the id, and by what a git host's page would show of the answer. */
async function traced(id: string, answer: Answer) {
  const lines = Object.entries({ "x-served-by": "", ...answer.headers }).map(([name, value]) => `${name}: ${value}`);
  const shown = ["--status", String(answer.status), ...lines.flatMap((line) => ["--header", line])];
  const { code, stdout, stderr } = await world.stack.pushgate("trace", "--json", "--delivery", id, ...shown);
  expect(stderr).toBe("");
  const found = JSON.parse(stdout) as Traced[];
  expect(found).toHaveLength(1);
  return { code, ...found[0]!, names: found[0]!.outcomes.map(({ name }) => name) };
}

test("the host's own ping reaches its receiver, of a self-hosted git host's ranges, too, and no stopped socket", async () => {
  const ping = (hook: string) => world.stack.pushgate("trace", "--ping", "--hook", hook);
  for (const hook of ["site", "docs"])
    expect(await ping(hook)).toMatchObject({ code: 0, stdout: expect.stringContaining("It proves nothing about DNS") });
  await host.inside(`systemctl stop ${socket} ${units.receiver}`);
  const deaf = await ping("site");
  expect(deaf.stdout).toContain("likely: the source is inside of the ranges, and the receiver's socket did not accept");
  expect(deaf.code).toBe(1);
  await host.inside(`systemctl start ${socket}`);
});

type Step = () => Promise<unknown>;
type Row = {
  readonly what: string;
  readonly make: Step;
  readonly change?: Change;
  readonly name: string;
  readonly cause?: RegExp;
  readonly fix: RegExp;
  /** How the fix is applied: by the command that is printed, or by what an operator would do. Left out: by nothing. */
  readonly by?: "ssh" | Step;
};

const sh = (script: string) => () => host.inside(`set -e\n${script}`);
const socket = units.socket("github");
/** systemd 257 enforces a changed list once a unit has started in the slice. */
const inForce = "systemctl daemon-reload && systemd-run --quiet --wait --collect --slice=pushgate.slice true";

const rows: readonly Row[] = [
  {
    what: "comes from an address of Cloudflare that the live table does not hold",
    make: sh("nft flush set inet pushgate edge4"),
    name: "firewall",
    cause: /^5 firewall: table inet pushgate: .*missing/,
    fix: new RegExp(`systemctl restart ${units.firewall}$`),
    by: "ssh",
  },
  {
    what: "comes after the guard closed the socket, as the slice has a list",
    make: async () => {
      await host.writeFile(`${paths.units}/pushgate.slice.d/open.conf`, "[Slice]\nIPAddressAllow=198.51.100.0/24\n");
      await host.inside(`${inForce}; systemctl start ${units.guard} && exit 1 || :`);
    },
    name: "unreachable socket",
    cause: /^7 systemd: the guard: pushgate\.slice admits 198\.51\.100\.0\/24/,
    fix: /^remove IPAddressAllow from pushgate\.slice: systemctl cat/,
    by: sh(`rm ${paths.units}/pushgate.slice.d/open.conf; ${inForce}; systemctl start ${units.guard}`),
  },
  {
    what: "finds the spool read-only",
    make: sh(`mount --bind ${paths.spool} ${paths.spool}; mount -o remount,bind,ro ${paths.spool}
systemctl restart ${units.receiver}`),
    name: "not spooled",
    cause: /^8 receiver: the spool's file system is read-only/,
    fix: /See why the kernel made it so: ssh/,
    by: sh(`umount ${paths.spool}; systemctl restart ${units.receiver}`),
  },
  // The last, as only an `up` restores Cloudflare's rules.
  {
    what: "comes from outside of the git host's ranges, without Cloudflare's rules",
    make: async () => {
      await fault.noRules.make(world, host);
      await fault.bots("allow").make(world, host);
    },
    change: { source: actors.stranger.v4[0] },
    name: "outside of the ranges",
    fix: /Compare the source/,
  },
];

describe("a delivery that", () => {
  test.each(rows)("$what", async ({ make, change, name, cause, fix, by }) => {
    const id = randomUUID();
    const check = async () => {
      await make();
      const sent = await world.deliver({ ...change, headers: { "x-github-delivery": id } });
      const { code, names, ...found } = await traced(id, sent);
      expect({ code, certainty: found.certainty, names }, JSON.stringify(found)).toEqual({
        ...{ code: 1, certainty: "certain", names: [name] },
      });
      const [own] = found.causes.filter(({ outcome }) => outcome === name);
      const because = own && `${own.layer}: ${own.what}`;
      if (cause === undefined) expect(because).toBeUndefined();
      else expect(because).toMatch(cause);
      const printed = own?.fix ?? found.outcomes[0]!.fix ?? "";
      expect(printed).toMatch(fix);
      return printed;
    };
    // What a failed row leaves would fail all that follow.
    const printed = await check().catch(async (error: unknown) => {
      await (typeof by === "function" ? by() : by && world.stack.up());
      throw error;
    });
    if (typeof by === "function") await by();
    if (by === "ssh") await run("sh", ["-c", printed]);
    expect((await world.deliver()).status).toBe(202);
  });
});
