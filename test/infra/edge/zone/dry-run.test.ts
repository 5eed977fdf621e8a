/** The dry run of a preview with the fake API, without an engine: it checks token and rules, and writes nothing. */
import * as pulumi from "@pulumi/pulumi";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Settings } from "../../../../infra/config/settings.ts";
import { cloudflareApi } from "../../../../infra/edge/api.ts";
import { dryRunFaults, tryOut } from "../../../../infra/edge/zone/dry-run.ts";
import { rulesOf } from "../../../../infra/edge/zone/fits.ts";
import { CloudflareError, type LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import type { Rule as DeclaredRule, PhaseName } from "../../../../infra/edge/zone/phase.ts";
import { type Api, apiToken, startApi } from "../../../fakes/cloudflare/api.ts";
import { clientOf } from "../../../fakes/cloudflare/client.ts";
import { permissions } from "../../../fakes/cloudflare/permissions.ts";
import { emptyZone, type Rule, type Ruleset } from "../../../fakes/cloudflare/zone.ts";
import { example, exampleHost, serving, siteHostname } from "../../../fixtures.ts";

const custom = "http_request_firewall_custom";

describe("the dry run of a preview", () => {
  let api: Api;
  let settings: Settings;
  const client = clientOf(() => api);
  const tokens: Record<string, readonly string[]> = {};
  /** The API's word for the dashboard's Edit is Write. */
  const all = () => permissions(settings).map((permission) => permission.replace(/Edit$/, "Write"));
  let zone: LiveZone;
  const faults = () => dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), settings, zone);
  beforeAll(async () => {
    settings = { ...example, edge: { plan: "free", botFightMode: "off", generation: 1 } };
    api = await startApi({ zone: emptyZone("example.org", "free"), tokens });
    tokens[apiToken] = all();
    const none = { name: "default", description: "", rules: [] };
    zone = { id: api.zone.id, name: "example.org", plan: "free", phases: { custom: none, origin: none, config: none } };
  });
  afterAll(() => api?.close());

  test.each(["DNS", "SSL and Certificates", "Zone WAF", "Config Rules", "Origin Rules"])(
    "without %s the preview names that permission, and nothing else",
    async (kind) => {
      tokens[apiToken] = all().filter((one) => one !== `${kind} Write`);
      const found = await faults();
      tokens[apiToken] = all();
      expect(found.length).toBeGreaterThan(0);
      for (const fault of found)
        expect(fault).toMatch(
          new RegExp(`: 403 .*\\. Give cloudflare:apiToken the permission ${kind} Edit for this zone\\.$`),
        );
      expect(await faults()).toEqual([]);
    },
  );

  test("a token that Cloudflare does not know has none of the permissions", async () => {
    const found = await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: "unknown" }), settings, zone);
    expect(found).toHaveLength(6);
    for (const fault of found)
      expect(fault).toMatch(
        /: 401 Invalid API Token \(1000\)\. Give cloudflare:apiToken the permission .* Edit for this zone\.$/,
      );
  });

  test.each([
    ["DNS records", /dns_records$/],
    ["origin certificates", /\/client\/v4\/certificates$/],
    ["client certificates", /origin_tls_client_auth\/hostnames\/certificates$/],
  ])("the preview names %s that cannot be read, with what to do", async (what, path) => {
    api.faults.push({ path, times: 1, status: 400 });
    expect(await faults()).toEqual([
      `the ${what} of example.org cannot be read: 400 Please wait and try again (10013). Check the connection to ` +
        "Cloudflare and run it again.",
    ]);
  });

  test("without a host that stays nothing is read", async () => {
    api.requests.length = 0;
    const none = { ...settings, hosts: [{ ...exampleHost, state: "absent" as const }] };
    expect(await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), none, zone)).toEqual([]);
    expect(api.requests).toEqual([]);
  });

  test("an error that is not an answer of Cloudflare is thrown", async () => {
    const broken = {
      ...cloudflareApi({ baseUrl: api.url, token: apiToken }),
      get: () => Promise.reject(new TypeError("x")),
    };
    await expect(dryRunFaults(broken, settings, zone)).rejects.toThrow(TypeError);
  });

  test("an error counts its faults", () => {
    expect(new CloudflareError(["one"]).message).toBe("Cloudflare: 1 fault, nothing was changed:\n  one");
    expect(new CloudflareError(["one", "two"]).message).toBe(
      "Cloudflare: 2 faults, nothing was changed:\n  one\n  two",
    );
  });

  test("the preview quotes another reason for a rejection, and tries the other phases too", async () => {
    const host = { ...exampleHost, hostname: 'hooks" or ".example.org' };
    const found = await dryRunFaults(
      cloudflareApi({ baseUrl: api.url, token: apiToken }),
      { ...settings, hosts: [host] },
      zone,
    );
    expect(found).toHaveLength(3);
    for (const fault of found)
      expect(fault).toMatch(/rules that `up` would write to example\.org are rejected by Cloudflare: 400 .*expression/);
  });

  describe("Cloudflare's quota stops a preview, which names the phase, Cloudflare's answer and what to do", () => {
    const own = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ ref: `own${n}`, action: "block", expression: "ssl" }));
    /** The faults of a preview in which nothing was written, in a zone with `count` custom rules of its own. */
    const faultsWith = async (change: Partial<Settings>, count = 0): Promise<string[]> => {
      if (count > 0)
        await client.result("POST", "Z/rulesets", { name: "default", kind: "zone", phase: custom, rules: own(count) });
      const [live] = api.zone.rulesets;
      const rules = (live?.rules ?? []).map(({ ref, action, expression }) => ({ ref, action, expression })) as never;
      const phase = { ...zone.phases.custom, ...(live && { id: live.id }), rules };
      const before = structuredClone(api.zone);
      const now = { ...zone, phases: { ...zone.phases, custom: phase } };
      const edge = cloudflareApi({ baseUrl: api.url, token: apiToken });
      const found = await dryRunFaults(edge, { ...settings, ...change }, now);
      expect(api.zone).toStrictEqual(before);
      api.zone.rulesets = [];
      return found;
    };

    test("one custom rule too many, but not the last one that fits, and no removal", async () => {
      expect(await faultsWith({}, 4)).toEqual([
        "the custom rules that `up` would write to example.org are rejected by Cloudflare: 400 exceeded the maximum number " +
          "of rules in the phase http_request_firewall_custom: 6 out of 5 (50001). If there are too many rules, remove some " +
          "of the zone's own or choose a larger plan; hosts with the same originPort take one rule together. If an " +
          "expression is too long, write fewer, wider ranges in hooks[].sources.",
      ]);
      expect(await faultsWith({}, 3)).toEqual([]);
      expect(await faultsWith({ hosts: [{ ...exampleHost, state: "absent" }] }, 5)).toEqual([]);
    });

    test("more origin ports than the plan has origin rules", async () => {
      const hosts = Array.from({ length: 11 }, (_, n) => ({
        ...exampleHost,
        hostname: `h${n}.example.org`,
        originPort: 8443 + n,
      }));
      const [fault, ...others] = await faultsWith({ hosts });
      expect(others).toEqual([]);
      expect(fault).toMatch(
        /^the origin rules .* 11 out of 10 \(50001\)\. .* a larger plan; hosts with the same originPort/,
      );
    });

    test("an expression that is too long, quoted in part", async () => {
      const sources = Array.from({ length: 236 }, (_, n) => `2001:db8:${(4096 + n).toString(16)}::/48`);
      const hooks = [settings.hooks[0]!, { ...settings.hooks[1]!, sources }];
      const [fault, ...others] = await faultsWith({ hooks });
      expect(others).toEqual([]);
      expect(fault).toMatch(
        /^the custom rules .* characters long, the maximum is 4096 \(20127\)\. .* wider ranges in hooks\[\]\.sources\.$/,
      );
      expect(fault!.length).toBeLessThan(500);
    });
  });

  test("the preview names a hostname of a site or of a host that is a CNAME, and no other record", async () => {
    const record = { id: "r", name: siteHostname, type: "A", content: "203.0.113.80", proxied: true, ttl: 1 };
    const withRecord = async (change: object) => {
      api.zone.dns_records = [{ ...record, ...change }];
      const found = await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), serving(settings), zone);
      api.zone.dns_records = [];
      return found;
    };
    expect(await withRecord({ type: "CNAME", content: "old.example.net" })).toEqual([
      expect.stringMatching(
        /^www\.example\.org is a CNAME to old\.example\.net, .*\. Remove the CNAME, then run npx pulumi up/,
      ),
    ]);
    expect(
      await withRecord({ name: settings.hosts[0]!.hostname, type: "CNAME", content: "x.cfargotunnel.com" }),
    ).toEqual([expect.stringMatching(/^hooks\.example\.org is a CNAME to x\.cfargotunnel\.com, /)]);
    expect(await withRecord({})).toEqual([]);
    expect(await withRecord({ type: "CNAME", name: "other.example.org" })).toEqual([]);
    api.faults.push({ path: /dns_records$/, times: 1, status: 400 });
    expect(await withRecord({ type: "CNAME", content: "old.example.net" })).toEqual([
      expect.stringMatching(/^the DNS records of example\.org cannot be read: 400/),
    ]);
  });

  describe("a hostname two labels below the zone", () => {
    const host = { ...exampleHost, hostname: "hooks.web1.example.org" };
    const deeper = () => ({
      ...serving(settings, { hostname: "blog.www.example.org" }),
      hosts: [{ ...exampleHost, name: "web0" }, host],
    });
    const faultsWith = async (status: string, ...hosts: string[]): Promise<string[]> => {
      const [universal] = api.zone.certificate_packs;
      api.zone.certificate_packs = [universal!, { id: "p", type: "advanced", status, hosts }];
      const found = await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), deeper(), zone);
      api.zone.certificate_packs = [universal!];
      return found;
    };
    const [ofHost, ofSite] = [
      "hooks.web1.example.org has no certificate of the zone: the universal one covers one label below example.org. Use a " +
        "name such as hooks-web1.example.org, or order an advanced certificate for *.web1.example.org in Cloudflare's " +
        "dashboard.",
      "blog.www.example.org has no certificate of the zone: the universal one covers one label below example.org. Use a " +
        "name such as blog-www.example.org, or order an advanced certificate for *.www.example.org in Cloudflare's " +
        "dashboard.",
    ];
    test("is rejected without an active certificate for it", async () => {
      expect(await faultsWith("active", "other.web1.example.org", "*.example.net")).toEqual([ofHost, ofSite]);
      expect(await faultsWith("pending_validation", "*.web1.example.org", "*.www.example.org")).toEqual([
        ofHost,
        ofSite,
      ]);
    });
    test("is no fault of an absent host, nor where the certificates cannot be read", async () => {
      const all = deeper();
      const absent = { ...serving(settings), hosts: [all.hosts[0]!, { ...host, state: "absent" as const }] };
      const edge = cloudflareApi({ baseUrl: api.url, token: apiToken });
      expect(await dryRunFaults(edge, absent, zone)).toEqual([]);
      api.faults.push({ path: /certificate_packs$/, times: 1, status: 400 });
      expect(await dryRunFaults(edge, all, zone)).toEqual([]);
    });
    test("is accepted with one that names it, or a wildcard of its parent", async () => {
      expect(await faultsWith("active", "hooks.web1.example.org", "*.www.example.org")).toEqual([]);
      expect(await faultsWith("active", "hooks.web1.example.org")).toEqual([ofSite]);
    });
  });

  test("the dry run costs three reads if the zone is as declared, and sends a rule of the zone's own as the API returned it", async () => {
    const rules = rulesOf(settings);
    const own = {
      ref: "own",
      action: "block",
      expression: "ssl",
      enabled: true,
      description: "",
      logging: { enabled: true },
    };
    const made = await client.result<Ruleset>("POST", "Z/rulesets", {
      ...{ name: "default", kind: "zone", phase: custom, rules: [own] },
    });
    const as = (name: PhaseName) => ({ ...zone.phases[name], rules: rules[name] });
    const inSync = { custom: as("custom"), origin: as("origin"), config: as("config") };
    api.requests.length = 0;
    expect(
      await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), settings, { ...zone, phases: inSync }),
    ).toEqual([]);
    expect(api.requests.map(({ method }) => method)).toEqual(["GET", "GET", "GET"]);

    const foreign = { ...inSync, custom: { ...inSync.custom, id: made.id, rules: [own] } };
    expect(
      await dryRunFaults(cloudflareApi({ baseUrl: api.url, token: apiToken }), settings, { ...zone, phases: foreign }),
    ).toEqual([]);
    const put = api.requests.find(({ method }) => method === "PUT")!;
    expect((put.body.rules as Rule[]).map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest", "own"]);
    expect((put.body.rules as Rule[])[2]).toMatchObject({ logging: { enabled: true }, id: made.rules[0]!.id });
    expect(api.zone.rulesets[0]!.rules).toHaveLength(1);
  });

  describe("of a run", () => {
    let isPreview: boolean;
    const access = () => ({ baseUrl: api.url, token: apiToken });
    const said = (log: typeof pulumi.log.warn) => vi.mocked(log).mock.calls.map(([text]) => text);
    const _foreign = { ref: "own", action: "block", expression: "ssl", enabled: true, description: "" };
    /** What a run that passes prints. */
    const printed = async (live: LiveZone, change: Partial<Settings> = {}) => {
      await tryOut(access(), { ...settings, ...change }, live);
      return [said(pulumi.log.warn), said(pulumi.log.info)];
    };
    const _withRules = (rules: readonly DeclaredRule[]): LiveZone => ({
      ...zone,
      phases: { ...zone.phases, custom: { ...zone.phases.custom, rules } },
    });
    beforeEach(() => {
      api.zone.rulesets = [];
      isPreview = true;
      api.requests.length = 0;
      vi.spyOn(pulumi.runtime, "isDryRun").mockImplementation(() => isPreview);
      for (const name of ["warn", "info"] as const) vi.spyOn(pulumi.log, name).mockResolvedValue(undefined);
    });
    afterEach(() => {
      vi.restoreAllMocks();
      tokens[apiToken] = all();
    });

    test("up tries nothing out, and prints nothing", async () => {
      isPreview = false;
      expect(await printed(zone)).toEqual([[], []]);
      await tryOut(undefined, settings, zone);
      expect([api.requests, said(pulumi.log.warn)]).toEqual([[], []]);
    });

    test("a preview without a token in the configuration warns that it checked nothing", async () => {
      await tryOut(undefined, settings, zone);
      expect(said(pulumi.log.warn)).toEqual([
        "cloudflare:apiToken is not in the stack's configuration, so this preview did not check whether the token may " +
          "write and Cloudflare accepts the rules. Run npx pulumi config set --secret cloudflare:apiToken.",
      ]);
      expect([api.requests, said(pulumi.log.info)]).toEqual([[], []]);
    });

    test("a preview fails with all faults", async () => {
      tokens[apiToken] = all().filter((one) => one !== "DNS Write");
      const failure = await tryOut(access(), settings, zone).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(CloudflareError);
      expect((failure as Error).message).toBe(
        "Cloudflare: 1 fault, nothing was changed:\n  the DNS records of example.org cannot be read: 403 Authentication " +
          "error (10000). Give cloudflare:apiToken the permission DNS Edit for this zone.",
      );
      expect(said(pulumi.log.info)).toEqual([]);
    });
  });
});
