/**
 * Wrong configurations under the real engine: from the stack file's YAML to what the user reads, which is on one page in
 * wrong-configurations.txt.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { findEngine, noEngine, type Run, type Workspace, workspace } from "./engine.ts";
import { type FakeSsh, fakeSsh } from "./fake-ssh.ts";
import { previews, type Row, right } from "./wrong-configurations.ts";

const engine = findEngine();
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
  if (!engine) return;
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
beforeEach(({ skip }) => {
  if (!engine) skip(noEngine);
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

/** `right` with names below another one than the zone. */
const below = (zone: string, name: string): Readonly<Record<string, unknown>> => ({
  "pushgate:zone": zone,
  "pushgate:hosts": right.config["pushgate:hosts"].map((host) => ({ ...host, hostname: `hooks.${name}` })),
  "pushgate:hooks": right.config["pushgate:hooks"].map((hook) => ({
    ...hook,
    site: { ...hook.site, hostname: undefined },
  })),
});

test.each([
  [
    "a name in a zone as the zone",
    below("blog.example.org", "blog.example.org"),
    'pushgate:zone is "blog.example.org", a name in the zone example.org and no zone itself. Run: npx pulumi config set pushgate:zone example.org',
  ],
  [
    "a hostname that no certificate covers",
    below("example.org", "blog.example.org"),
    "hooks.blog.example.org has no certificate of the zone: the universal one covers one label below example.org. Use a name such as hooks-blog.example.org, or order an advanced certificate for *.blog.example.org in Cloudflare's dashboard.",
  ],
])("what only Cloudflare knows is rejected before a change: %s", async (_, change, fault) => {
  writeFileSync(stack.stackFile, text);
  stack.configure(change);
  const run = await stack.preview();
  expect(run.code).toBe(1);
  expect(errors(run)).toEqual([`Cloudflare: 1 fault, nothing was changed:\n  ${fault}`]);
  expect(api.requests.filter(({ method, path }) => method !== "GET" && !path.includes("dry_run"))).toEqual([]);
});

test("without a change the configuration is accepted", async () => {
  writeFileSync(stack.stackFile, text);
  const accepted = await stack.preview();
  expect(accepted.code, accepted.stdout).toBe(0);
});
