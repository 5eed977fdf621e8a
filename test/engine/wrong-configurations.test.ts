/**
 * Wrong configurations under the real engine: from the stack file's YAML to what the user reads, which is on one page in
 * wrong-configurations.txt.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { type Run, type Workspace, workspace } from "./engine.ts";
import { type FakeSsh, fakeSsh } from "./fake-ssh.ts";
import { previews, type Row, right } from "./wrong-configurations.ts";

const rows = previews.flat();
let folder: string;
let api: Api;
let ssh: FakeSsh;
let stack: Workspace;
/** The stack file of `right`. */
let text: string;
/** The rows' encrypted values. */
const encrypted = new Map<Row, unknown>();

/** A text that stands for itself in YAML and occurs nowhere else. */
const place = (index: number) => `THE-ROW-${index}-`;

/** `hosts[0].name` -> ["pushgate:hosts", 0, "name"]; what is in quotes is one key. */
function stepsOf(key: string): (string | number)[] {
  if (key.startsWith('"')) return [`pushgate:${JSON.parse(key)}`];
  const [first = "", ...rest] = key.split(/[.[]/);
  const steps = rest.map((step) => (step.endsWith("]") ? Number.parseInt(step, 10) : step));
  return [first.includes(":") ? first : `pushgate:${first}`, ...steps];
}

function changed(group: readonly Row[]): string {
  const file = parse(text) as { config: Record<string, unknown> };
  for (const [index, row] of group.entries()) {
    const [key, written] = row;
    const steps = stepsOf(key);
    let at: Record<string | number, unknown> = file.config;
    for (const step of steps.slice(0, -1)) {
      at[step] ??= {};
      at = at[step] as typeof at;
    }
    const last = steps.at(-1)!;
    at[last] = typeof written === "object" ? encrypted.get(row) : place(index);
    if (written === undefined) delete at[last];
  }
  const yaml = stringify(file, { lineWidth: 0 });
  return group.reduce((so, [, written], index) => so.replace(place(index), () => String(written)), yaml);
}

const full = (key: string): string => {
  const plain = key.replaceAll('"', "");
  return plain.includes(":") ? plain : `pushgate:${plain}`;
};
/** The keys that a row's faults name. */
const keysOf = ([key, , ...more]: Row): string[] => (more.length > 0 ? more : [key]).map(full);
const errors = ({ diagnostics }: Run): string[] =>
  diagnostics.filter(({ severity }) => severity === "error").map(({ message }) => message.trimEnd());
const firstWord = (line: string): string => line.trim().split(" ")[0]!;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-wrong-"));
  ssh = fakeSsh(folder);
  api = await startApi({ zone: emptyZone("example.org", "pro") });
  const secret = rows.filter(([, written]) => typeof written === "object");
  stack = await workspace({
    path: [folder],
    starts: true,
    config: { ...right.config, "cloudflare:baseUrl": api.url },
    secrets: {
      ...{ "cloudflare:apiToken": apiToken, "pushgate:secrets": right.secrets },
      "pushgate:rows": Object.fromEntries(
        secret.map(([, written], i) => [`r${i}`, (written as { secret: string }).secret]),
      ),
    },
  });
  const { config } = parse(readFileSync(stack.stackFile, "utf8")) as { config: Record<string, object> };
  for (const [i, one] of Object.values(config["pushgate:rows"]!).entries()) encrypted.set(secret[i]!, one);
  stack.configure({ "pushgate:rows": undefined });
  text = readFileSync(stack.stackFile, "utf8");
});
afterAll(async () => {
  stack?.close();
  await api?.close();
  if (folder) rmSync(folder, { recursive: true });
});
const titleOf = ([key, written]: Row): string =>
  `${key}: ${typeof written === "object" ? `secure ${JSON.stringify(written.secret)}` : (written ?? "left out")}`;

test("each preview reports all faults of its rows and no other, before any request, and quotes no secret", async () => {
  const page: string[] = [];
  for (const group of previews) {
    writeFileSync(stack.stackFile, changed(group));
    const run = await stack.preview();
    expect(run.code, run.stdout).toBe(1);
    const [error = "", ...others] = errors(run);
    const [count, ...faults] = error.split("\n");
    const keys = group.flatMap(keysOf);
    expect([others, faults.map(firstWord).sort()]).toEqual([[], keys.sort()]);
    expect(count).toMatch(new RegExp(`^${keys.length} faults? in the stack configuration\\. Nothing was changed\\.$`));
    const printed = run.stdout + run.stderr;
    expect(printed).not.toMatch(/^\s+at |file:\/\/|node:internal|unhandled/m);
    expect(run.steps.map(({ type }) => type)).toEqual(["pulumi:pulumi:Stack"]);
    for (const [key, written] of group) {
      if (typeof written === "object") expect(printed).not.toContain(written.secret);
      else if (/^(secrets|cloudflare:apiToken)/.test(key) && written) expect(printed).not.toContain(written);
    }
    for (const row of group)
      page.push(`${titleOf(row)}\n${faults.filter((one) => keysOf(row).includes(firstWord(one))).join("\n")}\n`);
  }
  expect(api.requests).toEqual([]);
  expect(existsSync(ssh.log)).toBe(false);
  await expect(page.join("\n")).toMatchFileSnapshot("wrong-configurations.txt");
});

test("without a change the configuration is accepted", async () => {
  writeFileSync(stack.stackFile, text);
  const accepted = await stack.preview();
  expect(accepted.code, accepted.stdout).toBe(0);
});
