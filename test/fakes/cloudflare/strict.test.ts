/**
 * The fake API is as strict as the real one: no endpoint without its permission, lists in pages, what a plan does not
 * include; and the provider's client, as the fake plugin has it, against an API that is busy or broken.
 */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { ApiError, call, callForAll, configureApi } from "../plugins/cloudflare-api.ts";
import { type Api, type Fault, permissions, startApi } from "./api.ts";
import { createAuthority } from "./authority.ts";
import { certificateRoutes } from "./certificates.ts";
import { clientOf } from "./client.ts";
import { phases } from "./entitlements.ts";
import { zoneRoutes } from "./records.ts";
import { rulesetRoutes } from "./rulesets.ts";
import { emptyZone, idOf, type Ruleset } from "./zone.ts";

const authority = await createAuthority("test CA");
const all = "all-".repeat(11);
const readOnly = "read".repeat(11);
const without = (permission: string) => idOf(permission).repeat(2);
const bases = permissions.map((permission) => permission.replace(/ (Read|Write)$/, ""));

const api: Api = await startApi({
  zone: emptyZone("example.org", "pro"),
  authority,
  tokens: {
    // More than pushgate needs, so that the fake's other endpoints can be tested too.
    [all]: [...permissions, "Firewall Services Write"],
    [readOnly]: [...bases, "Firewall Services"].map((base) => `${base} Read`),
    ...Object.fromEntries(
      [...bases, "Firewall Services"].map((base) => [
        without(base),
        [...permissions, "Firewall Services Write"].filter((held) => !held.startsWith(`${base} `)),
      ]),
    ),
  },
});
afterAll(async () => {
  await api.close();
  await authority.close();
});
beforeEach(() => {
  Object.assign(api.zone, emptyZone("example.org", "pro"));
  api.faults.length = 0;
});
const { ask } = clientOf(() => api);

describe("no endpoint without its permission", () => {
  const fixed = [
    ...zoneRoutes(api.zone),
    ...rulesetRoutes(api.zone),
    ...certificateRoutes(api.zone, authority),
  ].flatMap(([method, path, permission]) => (permission === undefined ? [] : [[method, path, permission] as const]));
  test.each(fixed)("%s %s: %s", async (method, path, permission) => {
    const at = path.replace(":zone", api.zone.id).replace(/:\w+/, "0".repeat(32));
    const body = method === "GET" || method === "DELETE" ? undefined : {};
    const base = permission.replace(/ (Read|Write)$/, "");
    const status = async (token: string) => (await ask(method, at, body, token)).status;
    expect(await status(without(base))).toBe(403);
    expect(await status(all)).not.toBe(403);
    expect((await status(readOnly)) === 403).toBe(permission.endsWith("Write"));
  });

  test.each(Object.entries(phases))("rulesets of %s", async (phase, { permission }) => {
    const body = { name: "default", kind: "zone", phase, rules: [] };
    const entry = `Z/rulesets/phases/${phase}/entrypoint`;
    for (const token of [readOnly, without(permission)])
      expect((await ask("POST", "Z/rulesets", body, token)).status).toBe(403);
    const { id } = (await ask("POST", "Z/rulesets", body, all)).result as Ruleset;
    for (const path of [`Z/rulesets/${id}`, entry]) {
      for (const method of ["GET", "PUT"]) {
        const sent = method === "PUT" ? { rules: [] } : undefined;
        expect((await ask(method, path, sent, without(permission))).status).toBe(403);
        expect((await ask(method, path, sent, readOnly)).status).toBe(method === "GET" ? 200 : 403);
        expect((await ask(method, path, sent, all)).status).toBe(200);
      }
    }
    for (const token of [readOnly, without(permission)])
      for (const dry of ["", "?dry_run=true"])
        expect((await ask("DELETE", `Z/rulesets/${id}${dry}`, undefined, token)).status).toBe(403);
    expect((await ask("DELETE", `Z/rulesets/${id}`, undefined, all)).status).toBe(204);
  });
});

describe("lists come in pages", () => {
  test("rulesets by cursor, and the fake plugin's client reads them to the end", async () => {
    for (const phase of Object.keys(phases)) {
      const made = await ask("POST", "Z/rulesets", { name: "default", kind: "zone", phase, rules: [] }, all);
      expect(made.status).toBe(200);
    }
    const seen: string[] = [];
    let cursor = "";
    do {
      const page = await ask("GET", `Z/rulesets?per_page=3${cursor && `&cursor=${cursor}`}`, undefined, all);
      const { result, result_info: info } = page as unknown as {
        result: Ruleset[];
        result_info: { cursors: { after: string } };
      };
      expect(result).toHaveLength(Math.min(3, Object.keys(phases).length - seen.length));
      seen.push(...result.map(({ phase }) => phase));
      cursor = encodeURIComponent(info.cursors.after);
    } while (cursor !== "");
    expect(seen).toEqual(Object.keys(phases));
    expect((await ask("GET", "Z/rulesets?per_page=51", undefined, all)).status).toBe(400);

    const managed = (n: number) => ({ ...api.zone.rulesets[0]!, id: idOf(n), kind: "managed", name: `managed ${n}` });
    api.zone.rulesets.unshift(...Array.from({ length: 50 }, (_, n) => managed(n)));
    configureApi({ apiToken: all, baseUrl: api.url });
    expect(await callForAll(`zones/${api.zone.id}/rulesets`)).toHaveLength(50 + seen.length);
  });
  test("origin certificates of one zone, which must be named", async () => {
    api.zone.origin_certificates = Array.from({ length: 3 }, (_, n) => ({
      ...{ id: `${n}`, certificate: "", hostnames: [] },
    }));
    expect((await ask("GET", "/certificates", undefined, all)).status).toBe(400);
    const of = `/certificates?zone_id=${api.zone.id}`;
    expect((await ask("GET", `${of}&per_page=2&page=2`, undefined, all)).result).toMatchObject([{ id: "2" }]);
  });
});

test.each([
  ["pro", { host_header: "x.example.net" }, 400],
  ["pro", { sni: { value: "x.example.net" } }, 400],
  ["business", { origin: { host: "x.example.net" } }, 400],
  ["enterprise", { host_header: "x.example.net", sni: { value: "x.example.net" }, origin: { port: 8443 } }, 200],
  ["enterprise", {}, 400],
  ["enterprise", { orign: { port: 8443 } }, 400],
] as const)("an origin rule on %s: %j is %i", async (plan, parameters, status) => {
  api.zone.plan = plan;
  const rules = [{ ref: "r", action: "route", expression: "ssl", action_parameters: parameters }];
  const put = await ask("PUT", "Z/rulesets/phases/http_request_origin/entrypoint", { rules }, all);
  expect(put.status).toBe(status);
});

describe("the fake plugin's client, against the fake API", () => {
  const path = () => `zones/${api.zone.id}/settings/ssl`;
  const attempts = () => api.requests.length;
  beforeEach(() => {
    configureApi({ apiToken: all, baseUrl: api.url });
    api.requests.length = 0;
  });
  const now = { "retry-after": "0" };

  test.each<[string, Omit<Fault, "times">]>([
    ["busy: 429 with Retry-After", { status: 429, headers: now }],
    ["in trouble: 500", { status: 500, headers: now, body: "error code: 500" }],
    ["restarting: 502 from a proxy before it", { status: 502, headers: now, body: "<html>Bad Gateway</html>" }],
    ["overloaded: 503", { status: 503, headers: now }],
  ])("%s, three times: the client repeats the request and gets the answer", async (_, fault) => {
    api.faults.push({ ...fault, times: 3 });
    expect(await call("GET", path())).toMatchObject({ id: "ssl", value: "full" });
    expect(attempts()).toBe(4);
  });
  test("waits as long as Retry-After says", async () => {
    api.faults.push({ status: 429, headers: { "retry-after": "1" }, times: 1 });
    const started = performance.now();
    await call("GET", path());
    const waited = performance.now() - started;
    expect(waited).toBeGreaterThanOrEqual(990);
    // Without the header it would wait two seconds.
    expect(waited).toBeLessThan(1_900);
  });
  test("gives up after ten more, with the API's own words", async () => {
    api.faults.push({ status: 429, headers: now, times: 99 });
    await expect(call("GET", path())).rejects.toThrow(/429 .*"code":10013.*wait and try again/);
    expect(attempts()).toBe(11);
  });
  test.each<[string, Omit<Fault, "times">, RegExp]>([
    ["a refusal is one", { status: 403 }, /403/],
    ["x-should-retry: false", { status: 503, headers: { "x-should-retry": "false" } }, /503/],
    ["a success that is no JSON", { status: 200, body: "<html>Just a moment...</html>" }, /failed to parse .*<html>/],
    ["half an answer", { status: 200, body: '{"success":true,"result":{"id":"ss' }, /failed to parse/],
  ])("%s: the client does not repeat the request", async (_, fault, words) => {
    api.faults.push({ ...fault, times: 1 });
    const failure = await call("GET", path()).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(String(failure)).toMatch(words);
    expect(attempts()).toBe(1);
  });
});
