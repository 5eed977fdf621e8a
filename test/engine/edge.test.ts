/**
 * What infra/edge relies on: the cloudflare plugin, the real one if it is installed and else the fake, against the fake
 * Cloudflare. Each test continues where the one before it ended.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { findEngine, noEngine, patience, type Step, type Workspace, workspace } from "./engine.ts";

const program = fileURLToPath(new URL("programs/edge", import.meta.url));
const engine = findEngine();
const phase = "http_request_firewall_custom";
const rulesetType = "cloudflare:index/ruleset:Ruleset";

const brief = (steps: readonly Step[]) => steps.map(({ op, name, changed }) => `${op} ${name} ${changed.join(",")}`);

function csr(folder: string): string {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", join(folder, "key")];
  execFileSync("openssl", ["req", "-new", ...key, "-subj", "/CN=hooks", "-out", join(folder, "csr")], {
    stdio: "pipe",
  });
  return readFileSync(join(folder, "csr"), "utf8");
}

describe("a program of Cloudflare resources", { timeout: patience }, () => {
  let folder: string;
  let api: Api;
  let stack: Workspace;
  let privateKey: string;
  const rules = () => api.zone.rulesets.find((one) => one.phase === phase)?.rules ?? [];

  beforeAll(async () => {
    if (!engine) return;
    folder = mkdtempSync(join(tmpdir(), "pushgate-edge-"));
    api = await startApi({ zone: emptyZone("example.org", "free") });
    const leaf = await api.authority.issue("origin pulls");
    privateKey = leaf.key;
    stack = await workspace({
      // Its program restores a client certificate in an `apply`, for which plugins that stay would not wait.
      starts: true,
      project: program,
      config: {
        ...{ "edge:zone": "example.org", "edge:csr": csr(folder), "edge:certificate": leaf.certificate },
        "cloudflare:baseUrl": api.url,
      },
      secrets: { "cloudflare:apiToken": apiToken, "edge:privateKey": leaf.key },
    });
  });
  afterAll(async () => {
    stack?.close();
    await api?.close();
    if (folder) rmSync(folder, { recursive: true });
  });
  beforeEach(({ skip }) => {
    if (!engine) skip(noEngine);
  });

  test("up fails with the API's code for a phase that has a ruleset, and import adopts that ruleset", async () => {
    api.zone.rulesets.push({
      ...{ id: "a".repeat(32), name: "default", description: "", kind: "zone", version: "1", phase, last_updated: "" },
      rules: [],
    });
    const up = await stack.up();
    expect(up.code).toBe(1);
    expect(up.stdout).toContain("20217");
    const adopted = await stack.import(rulesetType, "custom rules", `zones/${api.zone.id}/${"a".repeat(32)}`);
    expect(adopted.stdout).not.toContain("error:");
    expect(adopted.code).toBe(0);
  });

  test("up creates each resource, and the next preview is empty", async () => {
    // Import has protected the ruleset.
    expect((await stack.up()).code).toBe(0);
    expect(rules().map(({ ref, action }) => `${ref} ${action}`)).toEqual(["hooks_skip skip", "hooks_block block"]);
    expect(rules()[0]?.action_parameters).toEqual({
      ...{ ruleset: "current", phases: ["http_ratelimit"], products: ["bic"] },
    });
    expect(api.zone.dns_records).toMatchObject([{ name: "hooks.example.org", content: "203.0.113.10", proxied: true }]);
    expect(api.zone.origin_certificates).toHaveLength(1);
    expect(api.zone.origin_pulls.hostnames).toMatchObject([{ hostname: "hooks.example.org", enabled: true }]);
    expect(await stack.stateText()).not.toContain(JSON.stringify(privateKey).slice(1, -1));
    expect(await stack.outputs()).toMatchObject({ plan: "free", fightMode: false, ranges: 15 });

    const preview = await stack.preview("--expect-no-changes");
    expect(brief(preview.steps)).toEqual([]);
    expect(preview.code).toBe(0);
  });

  test("preview exits with 7 for a client certificate that is off, and with 0 again after up has restored it", async () => {
    const [pull] = api.zone.origin_pulls.hostnames;
    const declared = pull!.cert_id;
    Object.assign(pull!, { enabled: false, cert_id: "another" });
    const preview = await stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(7);
    expect(brief(preview.steps)).toEqual(["update hooks.example.org client certificate configs"]);
    expect(preview.stdout).toContain(
      `the client certificate of hooks.example.org at Cloudflare is another, off; declared is ${declared}, on.`,
    );
    // Without the program's own look, preview is clean and up writes nothing: the provider restores the state's value.
    stack.configure({ "edge:blind": "true" });
    expect((await stack.preview("--expect-no-changes")).code).toBe(0);
    expect((await stack.up()).code).toBe(0);
    expect(api.zone.origin_pulls.hostnames).toMatchObject([{ cert_id: "another", enabled: false }]);
    stack.configure({ "edge:blind": undefined });
    expect((await stack.up()).code).toBe(0);
    expect(api.zone.origin_pulls.hostnames).toMatchObject([{ cert_id: declared, enabled: true }]);
    const clean = await stack.preview("--expect-no-changes");
    expect(clean.code, clean.stdout).toBe(0);
  });

  test("refresh finds changes made at Cloudflare, and up reverts them and keeps the rules' ids", async () => {
    const ids = rules().map(({ id }) => id);
    rules()[0]!.enabled = false;
    rules().reverse();
    api.zone.bot_management.fight_mode = true;
    api.zone.dns_records = [];
    const preview = await stack.preview("--expect-no-changes");
    expect(preview.code).toBe(7);
    expect(brief(preview.steps).sort()).toEqual([
      "create record ",
      "update bots fightMode",
      "update custom rules rules",
    ]);
    expect((await stack.up()).code).toBe(0);
    expect(rules().map(({ ref, enabled }) => `${ref} ${enabled}`)).toEqual(["hooks_skip true", "hooks_block true"]);
    expect(rules().map(({ id }) => id)).toEqual(ids);
    expect(api.zone.bot_management.fight_mode).toBe(false);
  });

  test("a new record type replaces the record, and the engine deletes the former one after it", async () => {
    stack.configure({ "edge:type": "AAAA", "edge:content": "2001:db8::10" });
    api.requests.length = 0;
    // The plugin repeats the request after the seconds in Retry-After.
    api.faults.push({ method: "POST", path: /dns_records$/, times: 1, status: 429, headers: { "retry-after": "0" } });
    const up = await stack.up();
    expect(up.code).toBe(0);
    expect(brief(up.steps)).toContain("replace record content,type");
    const sent = api.requests.filter(({ method, path }) => method !== "GET" && path.includes("dns_records"));
    expect(sent.map(({ method, status }) => `${method} ${status}`)).toEqual(["POST 429", "POST 200", "DELETE 200"]);
  });

  test("destroy removes what the API can delete", async () => {
    await stack.pulumi("state", "unprotect", "--all", "--yes", "--stack", "test");
    const destroy = await stack.destroy();
    expect(destroy.code).toBe(0);
    expect(api.zone).toMatchObject({ rulesets: [], dns_records: [], origin_certificates: [] });
    expect(api.zone.origin_pulls).toMatchObject({ hostnames: [], hostname_certificates: [] });
  });

  test("preview rejects a malformed token before it sends a request", async () => {
    await stack.setSecrets({ "cloudflare:apiToken": "with a blank" });
    api.requests.length = 0;
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    expect(preview.stdout).toMatch(/must only contain characters a-z, A-Z, 0-9, hyphens and underscores/);
    expect(api.requests).toEqual([]);
  });
});
