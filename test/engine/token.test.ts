/** What a preview reports about a token that lacks permissions, under the real engine, against the fake API. */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { permissions } from "../../infra/edge/zone/dry-run.ts";
import { type Api, apiToken } from "../fakes/cloudflare/api.ts";
import { findEngine, noEngine, type Run, type Workspace } from "./engine.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

const engine = findEngine();
const edge = { plan: "free", botFightMode: "off", generation: 1 } as const;
const needed = permissions({ edge });
/** The API's word for the dashboard's Edit is Write. */
const granted = needed.map((permission) => permission.replace(/Edit$/, "Write"));

test("README lists what it needs, no more and no less", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8").replace(/\s+/g, " ");
  const listed = /It needs, for the one zone: ([^.]*)\./.exec(readme)?.[1] ?? "";
  const words = [...listed.matchAll(/([A-Z][A-Za-z ]*): (Edit|Read)/g)].map(([, name, level]) => `${name} ${level}`);
  expect(words.sort()).toEqual([...needed].sort());
});

describe("a token", { timeout: 120_000 }, () => {
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

  test("with all of them a preview passes, says what only a write proves, and writes nothing", async () => {
    const zone = structuredClone(api.zone);
    const preview = await stack.preview();
    expect(preview.code, preview.stdout).toBe(0);
    expect(preview.stdout).toMatch(/DNS Edit, SSL and Certificates Edit, Bot Management Edit is known only when `up`/);
    expect(written()).toEqual([]);
    expect(api.zone).toStrictEqual(zone);
  });

  const without = (...gone: readonly string[]) => granted.filter((one) => !gone.includes(one));
  const rules = ["Zone WAF", "Config Rules", "Origin Rules"];

  test.each(["Zone Read", "Zone WAF Write", "Bot Management Write"])(
    "without %s the preview names it",
    async (gone) => {
      tokens[apiToken] = without(gone);
      const preview = await stack.preview();
      expect(preview.code).toBe(1);
      expect(preview.stdout).toContain("Authentication error");
      expect(preview.stdout).toContain(`the permission ${gone.replace("Write", "Read")}`);
      expect(preview.stdout).not.toContain(apiToken);
      expect(written()).toEqual([]);
    },
  );

  test("without the others, and with the rules to read only, the preview names them all at once", async () => {
    tokens[apiToken] = ["Zone Read", "Bot Management Write", ...rules.map((kind) => `${kind} Read`)];
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    for (const kind of rules)
      expect(preview.stdout).toMatch(new RegExp(`rules that \`up\` would write .* the permission ${kind} Edit`));
    for (const kind of ["DNS", "SSL and Certificates"])
      expect(preview.stdout).toMatch(new RegExp(`can't be read: .* the permission ${kind} Edit`));
    expect(preview.stdout).not.toContain(apiToken);
    expect(written()).toEqual([]);
  });

  /** `npm run audit`, by its own words. */
  const audit = (): Promise<Run> => {
    const { scripts } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    const [pulumi, ...words] = scripts.audit.split(" ") as string[];
    expect(pulumi).toBe("pulumi");
    return stack.pulumi(...words, "--non-interactive", "--stack", "test");
  };

  test("a permission that was taken later: the engine's own refresh meets it first, and audit names it", async () => {
    all.ssh.keyed();
    expect((await stack.up()).code).toBe(0);
    tokens[apiToken] = without("DNS Write");
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    expect(preview.stdout).toMatch(/DnsRecord[\s\S]*\/dns_records\/\w+": 403/);
    expect(preview.stdout).not.toContain("the permission");
    const named = await audit();
    expect(named.code).toBe(1);
    expect(named.stdout + named.stderr).toMatch(
      /the DNS records of example\.org can't be read: .* the permission DNS Edit/,
    );
  });

  test("another token, the former revoked: the state still holds that one, and up by the program's run takes the new", async () => {
    const another = apiToken.replace("stand-in", "stand-by");
    await stack.setSecrets({ "cloudflare:apiToken": another });
    tokens[another] = granted;
    delete tokens[apiToken];
    const refused = await stack.up();
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain("401 Unauthorized");
    expect((await audit()).code).not.toBe(1);
    expect((await stack.up("--run-program")).code).toBe(0);
    expect((await stack.preview()).code).toBe(0);
  });
});
