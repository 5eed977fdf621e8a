/** Configurations that the program rejects before it connects to a host or to Cloudflare, and what the user reads. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { apiToken } from "../fakes/cloudflare/api.ts";
import { secrets } from "../fixtures.ts";
import { findEngine, noEngine, type Workspace, workspace } from "./engine.ts";
import { hostsThatAre, type ProgramStack, programStack } from "./program-stack.ts";

const engine = findEngine();
let all: ProgramStack;
let stack: Workspace;

beforeAll(async () => {
  if (!engine) return;
  all = await programStack();
  stack = all.stack;
});
afterAll(() => all?.close());
beforeEach(({ skip }) => {
  if (!engine) skip(noEngine);
});

/** `change` gets the stack file's text, which is written back afterwards. */
async function rejectedWith(change: (text: string) => void, says: RegExp): Promise<void> {
  const text = readFileSync(stack.stackFile, "utf8");
  change(text);
  const plain = await stack.up();
  writeFileSync(stack.stackFile, text);
  expect(plain.code).toBe(1);
  expect(plain.stdout).toMatch(says);
  for (const secret of [...Object.values(secrets.site), apiToken]) expect(plain.stdout).not.toContain(secret);
  nothingWasRequested();
}

function nothingWasRequested(): void {
  expect(existsSync(all.ssh.log)).toBe(false);
  expect(all.api.requests).toEqual([]);
}

test.each<[string, Record<string, unknown>, RegExp]>([
  [
    "all hooks' secrets",
    { "pushgate:secrets": secrets },
    /pushgate:secrets is plain text\. .* pulumi config set --secret/,
  ],
  [
    "Cloudflare's token",
    { "cloudflare:apiToken": apiToken },
    /cloudflare:apiToken is plain text\. .* pulumi config set --secret cloudflare:/,
  ],
])("up rejects plain text for %s", async (_, change, says) => {
  await rejectedWith(() => stack.configure(change), says);
});

test("up rejects one plain text secret beside encrypted ones", async () => {
  const says = /pushgate:secrets\.site\.previous is plain text beside encrypted secrets\. Make a new secret/;
  await rejectedWith((text) => {
    const mixed = text.replace(/(previous:)\s+secure: .*/, `$1 ${secrets.site.previous}`);
    expect(mixed).not.toBe(text);
    writeFileSync(stack.stackFile, mixed);
  }, says);
});

test("up reports all values of a wrong type at once", async () => {
  const change = { "pushgate:zone": ["example.org"], "pushgate:hosts": "web1", "pushgate:limits": [1] };
  await rejectedWith(
    () => stack.configure(change),
    /3 faults in the stack configuration[\s\S]*hosts is "web1"\. Use a list/,
  );
});

test("the engine rejects a secret of another stack before it starts the program, and npx pushgate names its key", async () => {
  const other = await all.again();
  const token = (text: string): string => /apiToken:\s+secure: (\S+)/.exec(text)![1]!;
  const text = readFileSync(stack.stackFile, "utf8");
  writeFileSync(stack.stackFile, text.replace(token(text), token(readFileSync(other.stackFile, "utf8"))));
  const [up, hook] = [await stack.up(), await stack.pushgate("hook")];
  writeFileSync(stack.stackFile, text);
  expect(up.code).not.toBe(0);
  // docs/operating.md explains the engine's own text.
  expect(up.stderr).toMatch(/error: .*cipher: message authentication failed/);
  expect(up.steps).toEqual([]);
  expect(hook.code).toBe(1);
  expect(hook.stderr).toBe(
    "pushgate: cloudflare:apiToken cannot be decrypted: encrypted with the passphrase or the `encryptionsalt` of another " +
      "stack. Restore that of this stack in its file, or store each value anew: npx pulumi config set --secret --path <key>\n",
  );
  nothingWasRequested();
});

test("npx pushgate says what to do about another passphrase", async () => {
  const other = await workspace({ from: stack.folder, env: { PULUMI_CONFIG_PASSPHRASE: "another" } });
  const [up, hook] = [await other.up(), await other.pushgate("hook")];
  other.close();
  expect(up.stderr).toMatch(/error: .*incorrect passphrase/);
  expect(hook.code).toBe(1);
  expect(hook.stderr).toMatch(
    /^pushgate: the passphrase is not that of this stack\. Set PULUMI_CONFIG_PASSPHRASE, or /,
  );
});

test("up rejects an engine that is too old", async () => {
  const file = join(stack.folder, "Pulumi.yaml");
  const text = readFileSync(file, "utf8");
  expect(text).toMatch(/requiredPulumiVersion: ">=3\.\d+\.\d+"/);
  writeFileSync(file, text.replace(/requiredPulumiVersion: .*/, 'requiredPulumiVersion: ">=4.0.0"'));
  const old = await stack.up();
  writeFileSync(file, text);
  expect(old.code).not.toBe(0);
  expect(old.stdout + old.stderr).toMatch(/CLI version 3\.\d+\.\d+ does not satisfy the version range ">=4\.0\.0"/);
  nothingWasRequested();
});

test("up succeeds without the faults, and state: absent leaves the zone as it was before", async () => {
  const before = structuredClone(all.api.zone);
  expect((await stack.up()).code).toBe(0);
  expect(existsSync(all.ssh.log)).toBe(true);
  expect(all.api.zone).not.toEqual(before);
  stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
  expect((await stack.up()).code).toBe(0);
  expect(all.api.zone).toEqual(before);
});
