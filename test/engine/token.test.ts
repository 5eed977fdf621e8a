/** What a preview reports about a token that lacks permissions, under the real engine, against the fake API. */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Api, apiToken } from "../fakes/cloudflare/api.ts";
import { permissions } from "../fakes/cloudflare/permissions.ts";
import { findEngine, noEngine, patience, type Workspace } from "./engine.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

const engine = findEngine();
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
    if (!engine) return;
    all = await programStack({ edge, tokens });
    ({ api, stack } = all);
  });
  afterAll(() => all?.close());
  beforeEach(({ skip }) => {
    if (!engine) skip(noEngine);
  });
  afterEach(() => {
    tokens[apiToken] = granted;
  });
  const written = () => api.requests.filter(({ method, path }) => method !== "GET" && !path.endsWith("dry_run=true"));

  test("passes with all permissions, and writes nothing", async () => {
    const zone = structuredClone(api.zone);
    const preview = await stack.preview();
    expect(preview.code, preview.stdout).toBe(0);
    expect(written()).toEqual([]);
    expect(api.zone).toStrictEqual(zone);
  });

  /** Read by the program's own client, and by the provider's. */
  const reads = {
    program: /origin_tls_client_auth\/hostnames\/certificates$/,
    provider: /\/rulesets$/,
  };
  const page = { body: "<html>Bad Gateway</html>", headers: { "retry-after": "0", "content-type": "text/html" } };
  test.each(Object.entries(reads))(
    "passes while Cloudflare is busy and in trouble for a read of the %s",
    async (_, path) => {
      const now = { "retry-after": "0" };
      api.faults.push(
        { method: "GET", path, times: 1, status: 429, headers: now },
        { method: "GET", path, times: 1, status: 502, ...page },
        { method: "GET", path, times: 1, status: 503, headers: now },
      );
      api.requests.length = 0;
      const preview = await stack.preview();
      expect(preview.code, preview.stdout).toBe(0);
      const seen = api.requests.filter((one) => path.test(one.path.replace(/\?.*/, "")) && one.method === "GET");
      expect(seen.map(({ status }) => status)).toEqual([429, 502, 503, 200]);
    },
  );

  test("fails and writes nothing if a read of the program meets trouble that lasts", async () => {
    api.faults.push({ method: "GET", path: reads.program, times: 4, status: 502, ...page });
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    expect(preview.stdout).toContain("the client certificates of example.org cannot be read: 502 and no JSON.");
    expect(written()).toEqual([]);
    expect(api.faults.every(({ times }) => times === 0)).toBe(true);
  });

  const without = (...gone: readonly string[]) => granted.filter((one) => !gone.includes(one));
  const rules = ["Zone WAF", "Config Rules", "Origin Rules"];

  test.each(["Zone Read", "Zone WAF Write", "Bot Management Write"])("names %s if the token lacks it", async (gone) => {
    tokens[apiToken] = without(gone);
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    expect(preview.stdout).toContain("Authentication error");
    expect(preview.stdout).toContain(`the permission ${gone.replace("Write", "Read")}`);
    expect(preview.stdout).not.toContain(apiToken);
    expect(written()).toEqual([]);
  });

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
