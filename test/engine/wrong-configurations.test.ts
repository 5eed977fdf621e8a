/**
 * Wrong configurations under the real engine: from the stack file's YAML to what the user reads, which is on one page in
 * wrong-configurations.txt. pushgate reports all faults at once, so a preview has as many rows as do not touch each other.
 * Some are repeated with plugins that the engine starts. Real plugins, where they are installed, start for each preview.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { shape } from "../../infra/config/schema.ts";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { findEngine, noEngine, type Run, type Workspace, workspace } from "./engine.ts";
import { type FakeSsh, fakeSsh } from "./fake-ssh.ts";
import { type Row, right, rows } from "./wrong-configurations.ts";

/** Stacks, each with plugins of its own: two keep two cores busy. */
const workers = 2;
/** Of these rows a language host that the engine starts must report the same. */
const repeated = ["zone", "hooks[0].branch", "secrets.docs.deployKey"];

const engine = findEngine();
const closing: (() => unknown)[] = [];
const runs = new Map<Row, Run>();
let groups: readonly (readonly Row[])[] = [];
let api: Api;
let ssh: FakeSsh;
let usual: Workspace;
let accepted: Run;
/** The stack file's text for a row. */
let textOf: (group: readonly Row[]) => string;

/** A text that stands for itself in YAML and occurs nowhere else. */
const place = "THE-ROW";

/** `hosts[0].name` -> ["pushgate:hosts", 0, "name"]; what is in quotes is one key. */
function stepsOf(key: string): (string | number)[] {
  if (key.startsWith('"')) return [`pushgate:${JSON.parse(key)}`];
  const [first = "", ...rest] = key.split(/[.[]/);
  const steps = rest.map((step) => (step.endsWith("]") ? Number.parseInt(step, 10) : step));
  return [first.includes(":") ? first : `pushgate:${first}`, ...steps];
}

/** `text` is that of the stack file of `right`; `encryptedOf` has the rows' encrypted values. */
function changed(text: string, group: readonly Row[], encryptedOf: ReadonlyMap<Row, unknown>): string {
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
    at[last] = typeof written === "object" ? encryptedOf.get(row) : `${place}-${index}-`;
    if (written === undefined) delete at[last];
  }
  const changed = stringify(file, { lineWidth: 0 });
  return group.reduce((text, [, written], index) => text.replace(`${place}-${index}-`, () => String(written)), changed);
}

const full = (key: string): string => {
  const plain = key.replaceAll('"', "");
  return plain.includes(":") ? plain : `pushgate:${plain}`;
};
/** The keys that a row's faults name. */
const keysOf = ([key, , ...more]: Row): string[] => (more.length > 0 ? more : [key]).map(full);

/**
 * Rows of one preview. pushgate reports a wrong shape in any case. It compares keys with each other, mostly with a hook's,
 * only where their shapes fit: such a row has the hooks and its top-level keys to itself.
 */
function grouped(all: readonly Row[]): Row[][] {
  const hasWrongShape = (row: Row): boolean => {
    const { config } = parse(textOf([row])) as { config: Record<string, unknown> };
    const written = Object.keys(shape.entries).map((name) => [name, config[`pushgate:${name}`]]);
    return !v.safeParse(shape, Object.fromEntries(written)).success;
  };
  const taken = (row: Row): string[] => {
    const keys = [full(row[0]), ...keysOf(row)].map((key) => `${key.replaceAll("[", ".[")}.`);
    if (keysOf(row).length === 1 && hasWrongShape(row)) return keys;
    return ["pushgate:hooks.", ...keys.map((key) => /^[^.]+\./.exec(key)![0])];
  };
  const meet = (one: readonly string[], other: readonly string[]) =>
    one.some((a) => other.some((b) => a.startsWith(b) || b.startsWith(a)));
  const groups: { rows: Row[]; taken: string[]; faults: number }[] = [];
  for (const row of all) {
    const [keys, faults] = [taken(row), keysOf(row).length];
    const fit = groups.find((group) => group.faults + faults <= 10 && !meet(keys, group.taken));
    if (fit) {
      fit.rows.push(row);
      fit.taken.push(...keys);
      fit.faults += faults;
    } else groups.push({ rows: [row], taken: keys, faults });
  }
  return groups.map(({ rows }) => rows);
}

beforeAll(async () => {
  if (!engine) return;
  const folder = mkdtempSync(join(tmpdir(), "pushgate-wrong-"));
  closing.push(() => rmSync(folder, { recursive: true }));
  ssh = fakeSsh(folder);
  api = await startApi({ zone: emptyZone("example.org", "pro") });
  closing.push(() => api.close());
  const opened = async (options: Parameters<typeof workspace>[0]): Promise<Workspace> => {
    const stack = await workspace({ path: [folder], timeout: 60, ...options });
    closing.push(() => stack.close());
    return stack;
  };
  const secrets = rows.flatMap(([, written]) => (typeof written === "object" ? [written.secret] : []));
  usual = await opened({
    starts: true,
    config: { ...right.config, "cloudflare:baseUrl": api.url },
    secrets: {
      "cloudflare:apiToken": apiToken,
      "pushgate:secrets": right.secrets,
      "pushgate:rows": Object.fromEntries(secrets.map((secret, i) => [`r${i}`, secret])),
    },
  });
  const { config } = parse(readFileSync(usual.stackFile, "utf8")) as { config: Record<string, unknown> };
  const encrypted = Object.values(config["pushgate:rows"] as object);
  usual.configure({ "pushgate:rows": undefined });
  const text = readFileSync(usual.stackFile, "utf8");
  const encryptedOf = new Map(
    rows.filter(([, written]) => typeof written === "object").map((row, i) => [row, encrypted[i]]),
  );
  textOf = (group) => changed(text, group, encryptedOf);

  groups = grouped(rows);
  const left = [...groups];
  const worker = async (): Promise<void> => {
    const stack = await opened({ from: usual.folder });
    for (let group = left.shift(); group !== undefined; group = left.shift()) {
      writeFileSync(stack.stackFile, textOf(group));
      const run = await stack.preview();
      for (const row of group) runs.set(row, run);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  expect(api.requests).toEqual([]);
  expect(existsSync(ssh.log)).toBe(false);
  accepted = await usual.preview();
}, 1_200_000);
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});
beforeEach(({ skip }) => {
  if (!engine) skip(noEngine);
});

const errors = ({ diagnostics }: Run): string[] =>
  diagnostics.filter(({ severity }) => severity === "error").map(({ message }) => message.trimEnd());
const firstWord = (line: string): string => line.trim().split(" ")[0]!;
/** The lines of the error that name a key of this row: one for each fault. */
const faultsOf = (row: Row): string[] =>
  (errors(runs.get(row)!)[0]?.split("\n").slice(1) ?? []).filter((fault) => keysOf(row).includes(firstWord(fault)));
const titleOf = ([key, written]: Row): string =>
  `${key}: ${typeof written === "object" ? `secure ${JSON.stringify(written.secret)}` : (written ?? "left out")}`;

test("each preview reports the faults of its rows, and no other", () => {
  for (const group of groups) {
    const [error = ""] = errors(runs.get(group[0]!)!);
    const [count, ...named] = error.split("\n").map(firstWord);
    expect(named.sort()).toEqual(group.flatMap(keysOf).sort());
    expect(count).toBe(String(named.length));
  }
});

test("without a change the configuration is accepted", () => {
  expect(accepted.code, accepted.stdout).toBe(0);
});

/** How a fault says what it found, where it does not quote it. */
const said =
  /is (at|missing|empty|null|a list|an object|plain text|not a key|set, but|not a private key|a part of|the public half)|has (the wrong type|the name|fewer|more|a passphrase|characters)|has no line for|contains|equals|belongs to|repeats/;
const todo =
  /\b(Use|Run|run|Remove|Check|Did you mean|Move|Keep|Add|Correct|Install|Make|Copy|Give|List|put it in quotes)\b/;

test.for(rows.map((row) => [titleOf(row), row] as const))("%s", ([, row]) => {
  const [, written] = row;
  const run = runs.get(row)!;
  expect(run.code, run.stdout).toBe(1);
  expect(errors(run)).toEqual([
    expect.stringMatching(/^\d+ faults? in the stack configuration\. Nothing was changed\.\n {2}\S/),
  ]);
  expect(run.stdout + run.stderr).not.toMatch(/^\s+at |file:\/\/|node:internal|unhandled/m);
  expect(run.steps.map(({ type }) => type)).toEqual(["pulumi:pulumi:Stack"]);

  expect(faultsOf(row).map(firstWord)).toEqual(keysOf(row));
  for (const fault of faultsOf(row)) expect(fault).toMatch(todo);
  const [first = ""] = faultsOf(row);
  if (typeof written === "object") expect(run.stdout + run.stderr).not.toContain(written.secret);
  // It says what is wrong in words, or quotes what was found. A secret is never quoted.
  if (!said.test(first) && typeof written === "string") expect(quotes(first, written)).toBe(true);
});

/** Whether the fault quotes one of the values. It leaves out what comes before an "@", where a password may be. */
function quotes(fault: string, written: string): boolean {
  const leaves = (value: unknown): unknown[] =>
    Object(value) === value ? Object.values(value as object).flatMap(leaves) : [value];
  return leaves(parse(written)).some((value) => fault.includes(String(value).split("@").at(-1)!));
}

test("a language host that the engine starts reports the same", async () => {
  const text = readFileSync(usual.stackFile, "utf8");
  for (const row of repeated.map((key) => rows.find((row) => row[0] === key)!)) {
    writeFileSync(usual.stackFile, textOf([row]));
    expect(errors(await usual.preview())).toEqual([
      `1 fault in the stack configuration. Nothing was changed.\n${faultsOf(row)[0]}`,
    ]);
  }
  writeFileSync(usual.stackFile, text);
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
  const text = readFileSync(usual.stackFile, "utf8");
  usual.configure(change);
  api.requests.length = 0;
  const run = await usual.preview();
  writeFileSync(usual.stackFile, text);
  expect(run.code).toBe(1);
  expect(errors(run)).toEqual([`Cloudflare: 1 fault, nothing was changed:\n  ${fault}`]);
  expect(run.stdout + run.stderr).not.toMatch(/^\s+at |node:internal|unhandled/m);
  expect(api.requests.filter(({ method, path }) => method !== "GET" && !path.includes("dry_run"))).toEqual([]);
});

test("the page of all messages matches", async () => {
  expect(rows.length).toBeGreaterThanOrEqual(160);
  const page = rows.map((row) => `${titleOf(row)}\n${faultsOf(row).join("\n")}\n`);
  await expect(page.join("\n")).toMatchFileSnapshot("wrong-configurations.txt");
});
