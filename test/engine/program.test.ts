/**
 * pushgate's own program under the real engine: plugins, configuration, secrets and order as a person's `pulumi up` has
 * them. The edge is the stand-in API; each machine is an `ssh` that answers the probe as a bare Debian would and takes
 * whatever else it is sent. What the machine makes of it is the host suite's to prove.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Api, apiToken } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { secrets } from "../fixtures.ts";
import type { AnsweringSsh } from "./answering-ssh.ts";
import { findEngine, noEngine, type Workspace } from "./engine.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

const engine = findEngine();

describe("the program", { timeout: 120_000 }, () => {
  let all: ProgramStack;
  let api: Api;
  let ssh: AnsweringSsh;
  let stack: Workspace;

  beforeAll(async () => {
    if (!engine) return;
    all = await programStack({ site: true });
    ({ api, ssh, stack } = all);
  });
  afterAll(() => all?.close());
  beforeEach(({ skip }) => {
    if (!engine) skip(noEngine);
  });

  test("preview changes nothing and asks the machine once", async () => {
    const preview = await stack.preview("--diff");
    expect(preview.stdout).not.toContain("error:");
    expect(preview.code).toBe(0);
    const writes = api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
    expect(writes).toEqual(Array(3).fill("rulesets?dry_run=true"));
    expect(api.zone).toStrictEqual(emptyZone("example.org", "pro"));
    expect(readFileSync(ssh.log, "utf8")).toBe("asked\n");
    for (const { current } of Object.values(secrets)) expect(preview.stdout + preview.stderr).not.toContain(current);
  });

  test("up brings the machine first and the name last", async () => {
    const up = await stack.up();
    expect(up.stdout).not.toContain("error:");
    expect(up.code).toBe(0);
    const made = up.steps.filter(({ op }) => op === "create");
    // The guard is the machine's last layer but for the one that waits for the edge.
    const guarded = made.findIndex(({ name }) => name.endsWith("-guard"));
    const afterMachine = made
      .slice(guarded + 1)
      .filter(({ type }) => type.startsWith("cloudflare:"))
      .map(({ type }) => type.split(":").at(-1));
    expect(afterMachine.filter((type) => type === "Ruleset")).toHaveLength(3);
    expect(afterMachine.slice(-4)).toEqual(Array(4).fill("DnsRecord"));
    const writes = api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
    expect(writes.slice(-5)).toEqual(["rulesets", ...Array(4).fill("dns_records")]);
  });

  test("neither state nor output holds a secret in clear text", async () => {
    const state = await stack.stateText();
    for (const { current } of Object.values(secrets)) expect(state).not.toContain(current);
    expect(state).not.toContain(apiToken);
    expect(state).not.toContain("PRIVATE KEY");
  });

  test("what the edge was given is what it is asked for again", async () => {
    ssh.keyed();
    const preview = await stack.preview();
    expect(preview.code).toBe(0);
    expect(preview.steps.filter(({ type }) => type.startsWith("cloudflare:"))).toEqual([]);
  });
});
