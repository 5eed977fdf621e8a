/**
 * The real engine with the language host and the command plugin, installed or stood in for: what infra/apply/ship.ts
 * relies on. One stack, in order: each test goes on where the one before it ended.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { findEngine, noEngine, type Step, type Workspace, workspace } from "./engine.ts";

const program = fileURLToPath(new URL("programs/commands", import.meta.url));
const password = "a-password-nobody-may-read-in-the-state";
const engine = findEngine();

const brief = (steps: readonly Step[]) => steps.map(({ op, name, changed }) => `${op} ${name} ${changed.join(",")}`);

// Seconds each on a free machine; the limit is for one that builds something else at the same time.
describe("a program that reconciles", { timeout: 120_000 }, () => {
  let machine: string;
  let stack: Workspace;
  const live = () => readFileSync(join(machine, "live"), "utf8");

  beforeAll(async () => {
    if (!engine) return;
    machine = mkdtempSync(join(tmpdir(), "pushgate-machine-"));
    stack = await workspace({
      project: program,
      config: { "commands:folder": machine, "commands:wanted": "one" },
      secrets: { "commands:password": password },
    });
  });
  afterAll(() => {
    stack?.close();
    if (machine) rmSync(machine, { recursive: true });
  });

  beforeEach(({ skip }) => {
    if (!engine) skip(noEngine);
  });

  test("up runs typed source, and the preview after it is empty", async () => {
    const up = await stack.up();
    expect(up.stderr).not.toContain("error:");
    expect(up.code).toBe(0);
    expect(live()).toBe("one");
    // `logging` streams the script's words under its resource.
    expect(up.diagnostics).toContainEqual(expect.objectContaining({ severity: "info", message: "applied\n" }));
    const preview = await stack.preview("--expect-no-changes");
    expect(preview).toMatchObject({ code: 0, steps: [], counts: { same: 4 } });
  });

  test("a secret input and a secret output are not in the state in clear text", async () => {
    expect(await stack.stateText()).not.toContain(password);
    expect(await stack.outputs()).toMatchObject({ secretOutput: password });
  });

  test("what was changed by hand is one update in place, exit code 7, and up repairs it", async () => {
    writeFileSync(join(machine, "live"), "changed by hand");
    const preview = await stack.preview("--expect-no-changes");
    expect(preview.code).toBe(7);
    expect(brief(preview.steps)).toEqual(["update layer stdin"]);
    expect(preview.diagnostics.map(({ message }) => message)).toContain('live is "changed by hand", not "one"\n');
    expect(live()).toBe("changed by hand");
    expect((await stack.up()).counts).toEqual({ same: 3, update: 1 });
    expect(live()).toBe("one");
  });

  test("a failed update keeps the old inputs, says what was printed, and is tried again", async () => {
    stack.configure({ "commands:script": "echo no room left >&2; exit 3", "commands:wanted": "two" });
    const before = (await stack.resources()).find(({ urn }) => urn.endsWith("::layer"));
    const up = await stack.up();
    expect(up.code).toBe(1);
    expect(up.stdout).toContain('exit status 3: running "-s":\n    no room left');
    expect((await stack.resources()).find(({ urn }) => urn.endsWith("::layer"))?.inputs).toEqual(before?.inputs);
    stack.configure({ "commands:script": undefined });
    const again = await stack.up();
    expect(brief(again.steps)).toEqual(["update layer environment,stdin"]);
    expect(live()).toBe("two");
  });

  test("a trigger makes a new one and then runs the old one's delete", async () => {
    stack.configure({ "commands:trigger": "b" });
    const up = await stack.up();
    expect(brief(up.steps)).toContain("replace triggered triggers");
    expect(readFileSync(join(machine, "log"), "utf8")).toBe("create\ncreate\ndelete\n");
  });

  test("an interrupt ends the command that runs", async () => {
    stack.configure({ "commands:script": "echo $$ > pid; exec sleep 600", "commands:wanted": "three" });
    const up = stack.up();
    const file = join(machine, "pid");
    await vi.waitFor(() => expect(readFileSync(file, "utf8")).toMatch(/^\d+\n$/), { timeout: 30_000 });
    stack.interrupt();
    expect((await up).code).not.toBe(0);
    const process = `/proc/${readFileSync(file, "utf8").trim()}`;
    await vi.waitFor(() => expect(existsSync(process)).toBe(false), { timeout: 10_000 });
    stack.configure({ "commands:script": undefined, "commands:wanted": "two" });
  });

  test("a probe that cannot look fails the preview with 1, not 7", async () => {
    stack.configure({ "commands:probe": "echo host key verification failed >&2; exit 255" });
    const preview = await stack.preview("--expect-no-changes");
    expect(preview.code).toBe(1);
    expect(preview.stdout).toContain("exit status 255");
    expect(preview.stdout).toContain("host key verification failed");
  });
});
