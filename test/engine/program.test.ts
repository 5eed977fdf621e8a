/**
 * pushgate's own program under the real engine, with plugins, configuration, secrets, passphrase and order as in a user's
 * `pulumi up`, against the fake Cloudflare and the fake `ssh`. The suites in test/hosts prove what a real host does. Each
 * test continues where the one before it ended.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { apiToken, permissions } from "../fakes/cloudflare/api.ts";
import { emptyZone, rulesOf } from "../fakes/cloudflare/zone.ts";
import { secrets, stackFile } from "../fixtures.ts";
import type { Run } from "./engine.ts";
import { itemsOf, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let all: ProgramStack;
let api: ProgramStack["api"];
let ssh: ProgramStack["ssh"];
let stack: ProgramStack["stack"];

beforeAll(async () => {
  all = await programStack({ site: true, starts: true, passphrase: true });
  ({ api, ssh, stack } = all);
});
afterAll(() => all?.close());

describe("before any request", () => {
  let text: string;
  const [long, token] = ["x".repeat(40), "Bearer 0123456789"];
  beforeAll(() => {
    text = readFileSync(stack.stackFile, "utf8");
  });
  afterEach(() => {
    writeFileSync(stack.stackFile, text);
    expect([api.requests, existsSync(ssh.log)]).toEqual([[], false]);
  });

  /** test/infra/config has each fault; here is what YAML, the engine and its encryption make of them. */
  async function previewReports(...faults: string[]): Promise<void> {
    const run = await stack.preview();
    expect(run.code, run.stdout).toBe(1);
    const [error, ...more] = run.diagnostics.filter(({ severity }) => severity === "error");
    const [count, ...found] = error!.message.trimEnd().split("\n");
    expect(count).toMatch(/^\d+ faults in the stack configuration\. Nothing was changed\.$/);
    expect(found.sort()).toEqual(faults.sort().map((fault) => expect.stringContaining(`  ${fault}`)));
    const printed = run.stdout + run.stderr;
    expect(printed).not.toMatch(/^\s+at |file:\/\/|node:internal|unhandled/m);
    for (const word of [long.slice(9), token]) expect(printed).not.toContain(word);
    expect([more, run.steps.map(({ type }) => type)]).toEqual([[], ["pulumi:pulumi:Stack"]]);
  }

  test("a preview reports each value that YAML reads as another type, and each key that is left out", async () => {
    const [host] = stackFile["pushgate:hosts"];
    const [hook, other] = stackFile["pushgate:hooks"];
    stack.configure({
      ...{ "pushgate:zone": undefined, "pushgate:edge": "pro" },
      // As `pulumi config set` writes it without --path.
      "pushgate:hosts[0].state": "absent",
      "pushgate:hosts": [{ ...host, name: 7, originPort: "8443" }],
      "pushgate:hooks": [
        { ...hook, branch: true },
        { ...other, branch: "新分支/50%#ünï" },
      ],
      "pushgate:limits": { bodyBytes: 1e9 },
    });
    await previewReports(
      "pushgate:zone is empty. Use a DNS name",
      'pushgate:edge is "pro". Use an object',
      "pushgate:hosts[0].state is a part of another key, written without --path. Run: npx pulumi config rm",
      "pushgate:hosts[0].name is 7, which YAML reads as a number: put it in quotes.",
      'pushgate:hosts[0].originPort is "8443". Use a TCP port',
      "pushgate:hooks[0].branch is true, which YAML reads as a boolean: put it in quotes.",
      "pushgate:limits.bodyBytes is 1000000000. Use a number",
    );
  });

  test("a preview reports each fault of encrypted secrets and those in plain text, and quotes none", async () => {
    stack.configure({ "pushgate:secrets": undefined });
    const given = { site: { current: long.slice(9), curent: long }, other: { current: long } };
    await stack.setSecrets({ "pushgate:secrets": given, "cloudflare:apiToken": token });
    const encrypted = parse(readFileSync(stack.stackFile, "utf8")).config["pushgate:secrets"];
    stack.configure({ "pushgate:secrets": { ...encrypted, site: { ...encrypted.site, previous: long } } });
    await previewReports(
      "cloudflare:apiToken has characters that no token has, such as a space.",
      "pushgate:secrets.site.current has fewer than 32 characters.",
      "pushgate:secrets.site.curent is not a key pushgate knows. Did you mean current?",
      "pushgate:secrets.site.previous is plain text beside encrypted secrets. Make a new secret",
      "pushgate:secrets.docs is missing. Run: ",
      "pushgate:secrets.other belongs to no hook. Correct the hook's name, or run: npx pulumi config rm --path",
    );
  });

  test("the engine rejects a secret of another stack before it starts the program, and npx pushgate names its key", async () => {
    const other = await all.again();
    const secure = (from: string): string => /apiToken:\s+secure: (\S+)/.exec(from)![1]!;
    const foreign = secure(readFileSync(other.stackFile, "utf8"));
    writeFileSync(stack.stackFile, text.replace(secure(text), foreign));
    const [up, hook] = [await stack.up(), await stack.pushgate("hook")];
    // docs/operating.md explains the engine's own text.
    expect(up.stderr).toMatch(/error: .*cipher: message authentication failed/);
    expect([up.code === 0, up.steps, hook.code]).toEqual([false, [], 1]);
    expect(hook.stderr).toMatch(/^pushgate: cloudflare:apiToken cannot be decrypted: /);
  });

  test("npx pushgate says what to do about another passphrase", async () => {
    const { PULUMI_CONFIG_PASSPHRASE } = stack.env;
    stack.env.PULUMI_CONFIG_PASSPHRASE = "another";
    const [up, hook] = [await stack.up(), await stack.pushgate("hook")];
    Object.assign(stack.env, { PULUMI_CONFIG_PASSPHRASE });
    expect(up.stderr).toMatch(/error: .*incorrect passphrase/);
    expect(hook.code).toBe(1);
    expect(hook.stderr).toMatch(/^pushgate: the passphrase is not that of this stack\. /);
  });
});

const notes = ({ diagnostics }: Run): string[] =>
  diagnostics.filter(({ severity }) => severity === "info").map(({ message }) => message);
const written = () => api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("/").at(-1));

test("preview and audit change nothing, probe the host once each, and print no secret", async () => {
  const { ranges } = api.zone;
  api.zone.ranges = [...ranges, "198.51.100.0/24"];
  const preview = succeeded(await stack.preview("--diff"));
  const audit = await stack.pushgate("audit", "--json");
  api.zone.ranges = ranges;
  const items = itemsOf(audit);
  const range = { host: null, layer: "published ranges", item: "198.51.100.0/24", kind: "undeclared" };
  const guard = { host: "web1", layer: "guard", item: "web1-guard", kind: "create" };
  expect(audit.code).toBe(7);
  expect(items).toContainEqual({ ...range, before: "Cloudflare", after: null });
  expect(items).toContainEqual({ ...guard, before: null, after: null });
  expect(JSON.stringify(preview.diagnostics)).toContain("Cloudflare sends from 198.51.100.0/24, too");
  expect(written()).toEqual(Array(6).fill("rulesets?dry_run=true"));
  expect(api.zone).toStrictEqual(emptyZone("example.org", "pro"));
  expect(readFileSync(ssh.log, "utf8")).toBe("probed\nprobed\n");
  const printed = preview.stdout + preview.stderr + audit.stdout;
  for (const { current } of Object.values(secrets)) expect(printed).not.toContain(current);
  expect(audit.stdout).not.toContain("PRIVATE KEY");
  const [first] = notes(preview).filter((text) => text.startsWith("web1: "));
  expect(first).toMatch(/^web1: `up` adds these layers:\n {2}packages +installs what is missing of .*nginx/);
  expect(first!.trim().split("\n")).toHaveLength(14);
});

test("up applies the host's layers first, creates the DNS records last, and leaves no secret in the state in clear text", async () => {
  const up = succeeded(await stack.up());
  const made = up.steps.filter(({ op }) => op === "create");
  // The guard is the host's last layer, except the client CA, which waits for Cloudflare.
  const guarded = made.findIndex(({ name }) => name.endsWith("-guard"));
  const afterHost = made
    .slice(guarded + 1)
    .filter(({ type }) => type.startsWith("cloudflare:"))
    .map(({ type }) => type.split(":").at(-1));
  expect(afterHost.filter((type) => type === "Ruleset")).toHaveLength(3);
  expect(afterHost.slice(-4)).toEqual(Array(4).fill("DnsRecord"));
  expect(written().slice(-4)).toEqual(Array(4).fill("dns_records"));
  expect(written().filter((path) => path === "rulesets")).toHaveLength(3);
  expect(notes(up)).toEqual([
    `web1: applied packages, origin-key, origin-certificate, secrets, routing, receiver, egress, builder, site, proxy, firewall, guard, client-ca.
The git host needs these webhooks, with content type application/json and the push event alone:
  site on web1: https://hooks.example.org/webhook/site
  docs on web1: https://hooks.example.org/webhook/docs
Enter each with the secret that \`npx pushgate hook\` prints. Next, push; \`npx pushgate status\` then shows the build.
`,
  ]);
  const outputs = await stack.pulumi("stack", "output", "--json", "--stack", "test");
  expect(JSON.parse(outputs.stdout)).toEqual({
    webhooks: {
      "site on web1": "https://hooks.example.org/webhook/site",
      "docs on web1": "https://hooks.example.org/webhook/docs",
    },
    sites: ["https://www.example.org/"],
  });
  const state = await stack.stateText();
  for (const secret of [secrets.site.current, secrets.docs.current, apiToken, "PRIVATE KEY"])
    expect(state).not.toContain(secret);
});

describe("Cloudflare's token", () => {
  beforeAll(() => ssh.keyed());
  afterEach(() => {
    api.tokens[apiToken] = permissions;
  });

  test("needs the permissions that README lists, no more and no less", () => {
    const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
    const rows = [...readme.matchAll(/^ +\| ([A-Z][^|]*(?:Edit|Read)) \| (always|on the free plan)/gm)];
    // The API calls the dashboard's Edit Write.
    const listed = rows.flatMap(([, names]) => names!.replaceAll("Edit", "Write").split(", "));
    expect(listed.sort()).toEqual([...permissions].sort());
  });

  test("may only read for an audit; up then fails before it changes anything", async () => {
    api.tokens[apiToken] = permissions.map((permission) => permission.replace("Write", "Read"));
    const [rule] = rulesOf(api.zone, "http_request_origin");
    rule!.enabled = false;
    const audit = await stack.pushgate("audit", "--json");
    const up = await stack.up();
    rule!.enabled = true;
    expect([audit.code, audit.stderr]).toEqual([7, expect.stringContaining("Origin Rules Edit")]);
    const found = itemsOf(audit);
    expect(found).toContainEqual(expect.objectContaining({ layer: "origin rules", before: false, after: true }));
    // No layer of the fake host is as declared.
    expect(found).toContainEqual(expect.objectContaining({ host: "web1", layer: "proxy" }));
    expect([up.code, up.steps]).toEqual([1, []]);
    expect(up.stdout).toContain("Origin Rules Edit");
  });

  test("that was revoked is still in the state, and up fails; up --run-program and audit use the new one", async () => {
    const another = apiToken.toUpperCase();
    await stack.setSecrets({ "cloudflare:apiToken": another });
    api.tokens[another] = permissions;
    delete api.tokens[apiToken];
    const refused = await stack.up();
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain("401 Unauthorized");
    expect((await stack.pushgate("audit")).code).not.toBe(1);
    succeeded(await stack.up("--run-program"));
    succeeded(await stack.preview());
  });
});

// A busy computer may slow down one of the two that are compared. The fake hosts take three seconds to answer.
test("a preview of 20 hosts takes at most three times as long as of one", { retry: 2 }, async () => {
  const [first] = stackFile["pushgate:hosts"];
  const hosts = Array.from({ length: 19 }, (_, i) => ({
    ...{ ...first, name: `host${i}`, ssh: `root@host${i}.example.org`, hostname: `hooks${i}.example.org` },
    ...{ address: `203.0.113.${100 + i}`, address6: `2001:db8::1:${i}` },
  }));
  ssh.slow(3);
  const one = succeeded(await stack.preview());
  stack.configure({ "pushgate:hosts": [first, ...hosts] });
  const all = succeeded(await stack.preview());
  stack.configure({ "pushgate:hosts": [first] });
  console.log(`20 hosts: ${all.seconds.toFixed(1)} s, one: ${one.seconds.toFixed(1)} s`);
  expect(all.seconds).toBeLessThan(3 * one.seconds);
});
