/** What a preview reports about a token that lacks permissions, under the real engine, against the fake API. */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiToken } from "../fakes/cloudflare/api.ts";
import { permissions } from "../fakes/cloudflare/permissions.ts";
import { patience, type Workspace } from "./engine.ts";
import { type ProgramStack, programStack, succeeded } from "./program-stack.ts";

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
  let api: Api;
  let stack: Workspace;
  const tokens: Record<string, readonly string[]> = { [apiToken]: granted };

  beforeAll(async () => {
    all = await programStack({ edge, tokens });
    ({ api, stack } = all);
  });
  afterAll(() => all?.close());
  afterEach(() => {
    tokens[apiToken] = granted;
  });
  const written = () => api.requests.filter(({ method, path }) => method !== "GET" && !path.endsWith("dry_run=true"));

  test("passes while Cloudflare is busy and in trouble for a read of the provider, and writes nothing", async () => {
    const zone = structuredClone(api.zone);
    const path = /\/rulesets$/;
    const now = { "retry-after": "0" };
    const page = { body: "<html>Bad Gateway</html>", headers: { ...now, "content-type": "text/html" } };
    api.faults.push(
      { method: "GET", path, times: 1, status: 429, headers: now },
      { method: "GET", path, times: 1, status: 502, ...page },
    );
    succeeded(await stack.preview());
    const seen = api.requests.filter((one) => path.test(one.path.replace(/\?.*/, "")) && one.method === "GET");
    expect(seen.map(({ status }) => status)).toEqual([429, 502, 200]);
    expect(written()).toEqual([]);
    expect(api.zone).toStrictEqual(zone);
  });

  const without = (...gone: readonly string[]) => granted.filter((one) => !gone.includes(one));
  const rules = ["Zone WAF", "Config Rules", "Origin Rules"];

  test("names all missing permissions at once, also where the token can only read the rules", async () => {
    tokens[apiToken] = ["Zone Read", "Bot Management Write", ...rules.map((kind) => `${kind} Read`)];
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    for (const kind of rules)
      expect(preview.stdout).toMatch(new RegExp(`rules that \`up\` would write .* the permission ${kind} Edit`));
    for (const kind of ["DNS", "SSL and Certificates"])
      expect(preview.stdout).toMatch(new RegExp(`cannot be read: .* the permission ${kind} Edit`));
    expect(preview.stdout).not.toContain(apiToken);
    expect(written()).toEqual([]);
  });

  test("fails in the engine's own refresh after a permission was removed, and npx pushgate audit names the permission", async () => {
    all.ssh.keyed();
    expect((await stack.up()).code).toBe(0);
    tokens[apiToken] = without("DNS Write");
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
