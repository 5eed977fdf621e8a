/**
 * pushgate's own program under the real engine, with plugins, configuration, secrets and order as in a user's `pulumi
 * up`, against the fake Cloudflare and the fake `ssh`. The suites in test/hosts prove what a real host does.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiToken } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { secrets } from "../fixtures.ts";
import { patience, type Run, type Workspace } from "./engine.ts";
import type { FakeSsh } from "./fake-ssh.ts";
import { itemsOf, type ProgramStack, programStack } from "./program-stack.ts";

describe("the program", { timeout: patience }, () => {
  let all: ProgramStack;
  let api: Api;
  let ssh: FakeSsh;
  let stack: Workspace;

  beforeAll(async () => {
    all = await programStack({ site: true, starts: true });
    ({ api, ssh, stack } = all);
  });
  afterAll(() => all?.close());
  const notes = ({ diagnostics }: Run): string[] =>
    diagnostics.filter(({ severity }) => severity === "info").map(({ message }) => message);

  test("preview and audit change nothing, probe the host once each, and print no secret", async () => {
    const { ranges } = api.zone;
    api.zone.ranges = [...ranges, "198.51.100.0/24"];
    const preview = await stack.preview("--diff");
    const audit = await stack.pushgate("audit", "--json");
    api.zone.ranges = ranges;
    const items = itemsOf(audit);
    const range = { host: null, layer: "published ranges", item: "198.51.100.0/24", kind: "undeclared" };
    const guard = { host: "web1", layer: "guard", item: "web1-guard", kind: "create" };
    expect(audit.code).toBe(7);
    expect(items).toContainEqual({ ...range, before: "Cloudflare", after: null });
    expect(items).toContainEqual({ ...guard, before: null, after: null });
    expect(JSON.stringify(preview.diagnostics)).toContain("Cloudflare sends from 198.51.100.0/24, too");
    expect(preview.stdout).not.toContain("error:");
    expect(preview.code).toBe(0);
    const writes = api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
    expect(writes).toEqual(Array(6).fill("rulesets?dry_run=true"));
    expect(api.zone).toStrictEqual(emptyZone("example.org", "pro"));
    expect(readFileSync(ssh.log, "utf8")).toBe("probed\nprobed\n");
    const printed = preview.stdout + preview.stderr + audit.stdout;
    for (const { current } of Object.values(secrets)) expect(printed).not.toContain(current);
    expect(audit.stdout).not.toContain("PRIVATE KEY");
    const [first] = notes(preview).filter((text) => text.startsWith("web1: "));
    expect(first).toMatch(/^web1: `up` adds these layers:\n {2}packages +installs what is missing of .*nginx/);
    expect(first!.trim().split("\n")).toHaveLength(14);
  });

  test("up applies the host's layers first and creates the DNS records last", async () => {
    const up = await stack.up();
    expect(up.stdout).not.toContain("error:");
    expect(up.code).toBe(0);
    const made = up.steps.filter(({ op }) => op === "create");
    // The guard is the host's last layer, except the client CA, which waits for Cloudflare.
    const guarded = made.findIndex(({ name }) => name.endsWith("-guard"));
    const afterHost = made
      .slice(guarded + 1)
      .filter(({ type }) => type.startsWith("cloudflare:"))
      .map(({ type }) => type.split(":").at(-1));
    expect(afterHost.filter((type) => type === "Ruleset")).toHaveLength(3);
    expect(afterHost.slice(-4)).toEqual(Array(4).fill("DnsRecord"));
    const writes = api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));
    expect(writes.slice(-4)).toEqual(Array(4).fill("dns_records"));
    expect(writes.filter((path) => path === "rulesets")).toHaveLength(3);
    expect(notes(up)).toEqual([
      `web1: applied packages, origin-key, origin-certificate, secrets, routing, receiver, egress, builder, site, proxy, firewall, guard, client-ca.
The git host needs these webhooks, with content type application/json and the push event alone:
  site on web1: https://hooks.example.org/webhook/site
  docs on web1: https://hooks.example.org/webhook/docs
Enter each with the secret that \`npx pushgate hook\` prints. Next, push; \`npx pushgate status\` then shows the build.
`,
    ]);
    expect(await stack.outputs()).toEqual({
      webhooks: {
        "site on web1": "https://hooks.example.org/webhook/site",
        "docs on web1": "https://hooks.example.org/webhook/docs",
      },
      sites: ["https://www.example.org/"],
    });
  });

  test("the state holds no secret in clear text", async () => {
    const state = await stack.stateText();
    for (const { current } of Object.values(secrets)) expect(state).not.toContain(current);
    expect(state).not.toContain(apiToken);
    expect(state).not.toContain("PRIVATE KEY");
  });
});
