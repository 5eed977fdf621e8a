/** What a preview reports about a token that lacks permissions, under the real engine, against the fake API. */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { apiToken } from "../fakes/cloudflare/api.ts";
import { permissions } from "../fakes/cloudflare/permissions.ts";
import { rulesOf } from "../fakes/cloudflare/zone.ts";
import { patience, type Workspace } from "./engine.ts";
import { itemsOf, type ProgramStack, programStack } from "./program-stack.ts";

const edge = { plan: "free", botFightMode: "off", generation: 1 } as const;
const needed = permissions({ edge });
/** The API calls the dashboard's Edit Write. */
const granted = needed.map((permission) => permission.replace(/Edit$/, "Write"));

test("README lists the permissions that a token needs, no more and no less", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const rows = [...readme.matchAll(/^ +\| ([A-Z][^|]*(?:Edit|Read)) \| (always|on the free plan)/gm)];
  expect(rows.flatMap(([, names]) => names!.split(", ")).sort()).toEqual([...needed].sort());
});

describe("a run", { timeout: patience }, () => {
  let all: ProgramStack;
  let stack: Workspace;
  const tokens: Record<string, readonly string[]> = { [apiToken]: granted };

  beforeAll(async () => {
    all = await programStack({ edge, tokens });
    stack = all.stack;
  });
  afterAll(() => all?.close());
  afterEach(() => {
    tokens[apiToken] = granted;
  });

  test("fails in the engine's own refresh after a permission was removed, and npx pushgate audit names the permission", async () => {
    all.ssh.keyed();
    expect((await stack.up()).code).toBe(0);
    tokens[apiToken] = granted.filter((one) => one !== "DNS Write");
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    expect(preview.stdout).toMatch(/DnsRecord[\s\S]*\/dns_records\/\w+": 403/);
    expect(preview.stdout).not.toContain("the permission");
    const named = await stack.pushgate("audit");
    expect(named.code).toBe(1);
    expect(named.stdout + named.stderr).toMatch(
      /the DNS records of example\.org cannot be read: .* the permission DNS Edit/,
    );
  });

  test("of npx pushgate audit needs a token that only reads, with which up fails before it changes anything", async () => {
    tokens[apiToken] = needed.map((permission) => permission.replace(/Edit$/, "Read"));
    // No layer of the fake host is as declared.
    expect((await stack.pushgate("audit", "--json")).code).toBe(7);
    const [rule] = rulesOf(all.api.zone, "http_request_origin");
    rule!.enabled = false;
    const audit = await stack.pushgate("audit", "--json");
    expect([audit.code, audit.stderr]).toEqual([7, expect.stringContaining("Origin Rules Edit")]);
    const found = itemsOf(audit);
    expect(found).toContainEqual(expect.objectContaining({ layer: "origin rules", before: false, after: true }));
    expect(found).toContainEqual(expect.objectContaining({ host: "web1", layer: "proxy" }));
    const up = await stack.up();
    rule!.enabled = true;
    expect([up.code, up.steps]).toEqual([1, []]);
    expect(up.stdout).toContain("Origin Rules Edit");
  });

  test("fails after the former token was revoked, as the state still holds it; up --run-program uses the new one", async () => {
    const another = apiToken.toUpperCase();
    await stack.setSecrets({ "cloudflare:apiToken": another });
    tokens[another] = granted;
    delete tokens[apiToken];
    const refused = await stack.up();
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain("401 Unauthorized");
    expect((await stack.pushgate("audit")).code).not.toBe(1);
    expect((await stack.up("--run-program")).code).toBe(0);
    expect((await stack.preview()).code).toBe(0);
  });
});
