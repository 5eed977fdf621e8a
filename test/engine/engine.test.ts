/**
 * What infra/apply/ship.ts relies on: the real engine with the language host and the command plugin, the real ones if
 * they are installed and else the fakes. Each test continues where the one before it ended.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { patience, type Run, type Workspace, workspace } from "./engine.ts";

const program = fileURLToPath(new URL("programs/commands", import.meta.url));
const password = "a-password-that-must-not-be-in-the-state";

const brief = ({ steps }: Run) => steps.map(({ op, name, changed }) => `${op} ${name} ${changed.join(",")}`);

// program.test.ts has plugins that the engine starts for each run.
describe("a program that compares and repairs", { timeout: patience }, () => {
  let host: string;
  let stack: Workspace;
  const live = () => readFileSync(join(host, "live"), "utf8");

  beforeAll(async () => {
    host = mkdtempSync(join(tmpdir(), "pushgate-host-"));
    stack = await workspace({
      project: program,
      config: { "commands:folder": host, "commands:wanted": "one" },
      secrets: { "commands:password": password },
    });
  });
  afterAll(() => {
    stack?.close();
    if (host) rmSync(host, { recursive: true });
  });

  test("up runs the TypeScript program, and the next preview is empty", async () => {
    const up = await stack.up();
    expect(up.stderr).not.toContain("error:");
    expect(up.code).toBe(0);
    expect(live()).toBe("one");
    // `logging` prints the script's output under its resource.
    expect(up.diagnostics).toContainEqual(expect.objectContaining({ severity: "info", message: "applied\n" }));
    const preview = await stack.preview("--expect-no-changes");
    expect(preview).toMatchObject({ code: 0, steps: [] });
  });

  test("the state holds no secret input and no secret output in clear text", async () => {
    expect(await stack.stateText()).not.toContain(password);
    expect(await stack.outputs()).toMatchObject({ secretOutput: password });
  });

  test("preview reports a manual change as one update in place with exit code 7, and up repairs it", async () => {
    writeFileSync(join(host, "live"), "changed by hand");
    const preview = await stack.preview("--expect-no-changes");
    expect(preview.code).toBe(7);
    expect(brief(preview)).toEqual(["update layer stdin"]);
    expect(preview.diagnostics.map(({ message }) => message)).toContain('live is "changed by hand", not "one"\n');
    expect(live()).toBe("changed by hand");
    expect(brief(await stack.up())).toEqual(["update layer stdin"]);
    expect(live()).toBe("one");
  });

  test("a failed update keeps the old inputs and prints the script's output, and the next up tries again", async () => {
    stack.configure({ "commands:script": "echo no room left >&2; exit 3", "commands:wanted": "two" });
    const before = (await stack.resources()).find(({ urn }) => urn.endsWith("::layer"));
    const up = await stack.up();
    expect(up.code).toBe(1);
    expect(up.stdout).toContain('exit status 3: running "-s":\n    no room left');
    expect((await stack.resources()).find(({ urn }) => urn.endsWith("::layer"))?.inputs).toEqual(before?.inputs);
    stack.configure({ "commands:script": undefined });
    const again = await stack.up();
    expect(brief(again)).toEqual(["update layer stdin"]);
    expect(live()).toBe("two");
  });

  test("an interrupt ends the running command", async () => {
    stack.configure({ "commands:script": "echo $$ > pid; exec sleep 600", "commands:wanted": "three" });
    const up = stack.up();
    const file = join(host, "pid");
    await vi.waitFor(() => expect(readFileSync(file, "utf8")).toMatch(/^\d+\n$/), { timeout: 30_000 });
    stack.interrupt();
    expect((await up).code).not.toBe(0);
    const process = `/proc/${readFileSync(file, "utf8").trim()}`;
    await vi.waitFor(() => expect(existsSync(process)).toBe(false), { timeout: 30_000 });
  });
});
