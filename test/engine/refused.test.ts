/** Stacks that are refused before any machine or the edge is asked, and what the engine's user then reads. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { apiToken } from "../fakes/cloudflare/api.ts";
import { secrets } from "../stack-file.ts";
import { findEngine, noEngine, type Workspace } from "./engine.ts";
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

/** `change` is given the stack file's text, which stands again afterwards. */
async function refusedWith(change: (text: string) => void, says: RegExp): Promise<void> {
  const text = readFileSync(stack.stackFile, "utf8");
  change(text);
  const plain = await stack.up();
  writeFileSync(stack.stackFile, text);
  expect(plain.code).toBe(1);
  expect(plain.stdout).toMatch(says);
  for (const secret of [...Object.values(secrets.site), apiToken]) expect(plain.stdout).not.toContain(secret);
  nobodyWasAsked();
}

function nobodyWasAsked(): void {
  expect(existsSync(all.ssh.log)).toBe(false);
  expect(all.api.requests).toEqual([]);
}

test.each<[string, Record<string, unknown>, RegExp]>([
  ["all secrets", { "pushgate:secrets": secrets }, /pushgate:secrets is plain text\. .* pulumi config set --secret/],
  [
    "the edge's token",
    { "cloudflare:apiToken": apiToken },
    /cloudflare:apiToken is plain text\. .* pulumi config set --secret cloudflare:/,
  ],
])("plain text: %s", async (_, change, says) => {
  await refusedWith(() => stack.configure(change), says);
});

test("plain text: one secret beside encrypted ones", async () => {
  const says = /pushgate:secrets\.site\.previous is plain text beside encrypted secrets\. Make a new secret/;
  await refusedWith((text) => {
    const mixed = text.replace(/(previous:)\s+secure: .*/, `$1 ${secrets.site.previous}`);
    expect(mixed).not.toBe(text);
    writeFileSync(stack.stackFile, mixed);
  }, says);
});

test("values of a wrong type: all faults come together", async () => {
  const change = { "pushgate:zone": ["example.org"], "pushgate:hosts": "web1", "pushgate:limits": [1] };
  await refusedWith(
    () => stack.configure(change),
    /3 faults in the stack configuration[\s\S]*hosts is "web1"\. Use a list/,
  );
});

test("an engine that is too old", async () => {
  const file = join(stack.folder, "Pulumi.yaml");
  const text = readFileSync(file, "utf8");
  expect(text).toMatch(/requiredPulumiVersion: ">=3\.\d+\.\d+"/);
  writeFileSync(file, text.replace(/requiredPulumiVersion: .*/, 'requiredPulumiVersion: ">=4.0.0"'));
  const old = await stack.up();
  writeFileSync(file, text);
  expect(old.code).not.toBe(0);
  expect(old.stdout + old.stderr).toMatch(/CLI version 3\.\d+\.\d+ does not satisfy the version range ">=4\.0\.0"/);
  nobodyWasAsked();
});

test("without its fault the same stack comes up; `absent` leaves a zone that had no rules as it was", async () => {
  const before = structuredClone(all.api.zone);
  expect((await stack.up()).code).toBe(0);
  expect(existsSync(all.ssh.log)).toBe(true);
  expect(all.api.zone).not.toEqual(before);
  stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
  expect((await stack.up()).code).toBe(0);
  expect(all.api.zone).toEqual(before);
});
