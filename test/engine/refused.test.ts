/** What the engine itself rejects, and what the user reads: secrets of another stack, another passphrase, an old engine. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Workspace, workspace } from "./engine.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

let all: ProgramStack;
let stack: Workspace;

beforeAll(async () => {
  all = await programStack({ passphrase: true });
  stack = all.stack;
});
afterAll(() => all?.close());
function nothingWasRequested(): void {
  expect(existsSync(all.ssh.log)).toBe(false);
  expect(all.api.requests).toEqual([]);
}

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
