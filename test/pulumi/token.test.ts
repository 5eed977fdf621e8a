/** What a preview says of a token that may not do everything, under the real engine, against the stand-in API. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { permissions } from "../../infra/edge/dryrun.ts";
import { type Api, apiToken, startApi } from "../edge/api.ts";
import { emptyZone } from "../edge/zone.ts";
import { secrets } from "../stack-file.ts";
import { answeringSsh } from "./answering-ssh.ts";
import { findEngine, noEngine, type Workspace, workspace } from "./engine.ts";

const engine = findEngine();
const edge = { plan: "free", botFightMode: "off", generation: 1 } as const;
const needed = permissions({ edge });
/** The API's word for the dashboard's Edit is Write. */
const granted = needed.map((permission) => permission.replace(/Edit$/, "Write"));

test("README lists what it needs, no more and no less", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8").replace(/\s+/g, " ");
  const listed = /It needs, for the one zone: ([^.]*)\./.exec(readme)?.[1] ?? "";
  const words = [...listed.matchAll(/([A-Z][A-Za-z ]*): (Edit|Read)/g)].map(([, name, level]) => `${name} ${level}`);
  expect(words.sort()).toEqual([...needed].sort());
});

describe("a token", { timeout: 120_000 }, () => {
  let folder: string;
  let api: Api;
  let stack: Workspace;
  /** The API looks into it anew each time. */
  const tokens: Record<string, readonly string[]> = { [apiToken]: granted };

  beforeAll(async () => {
    if (!engine) return;
    folder = mkdtempSync(join(tmpdir(), "pushgate-token-"));
    answeringSsh(folder);
    api = await startApi({ zone: emptyZone("example.org", "free"), tokens });
    const file = parse(readFileSync(new URL("../../Pulumi.prod.yaml", import.meta.url), "utf8"));
    const { "pushgate:secrets": _, ...prod } = file.config as Record<string, unknown>;
    stack = await workspace({
      config: { ...prod, "pushgate:edge": edge, "cloudflare:baseUrl": api.url },
      secrets: { "cloudflare:apiToken": apiToken, "pushgate:secrets": secrets },
      path: [folder],
    });
  });
  afterAll(async () => {
    stack?.close();
    await api?.close();
    if (folder) rmSync(folder, { recursive: true });
  });
  beforeEach(({ skip }) => {
    if (!engine) skip(noEngine);
  });
  afterEach(() => {
    tokens[apiToken] = granted;
  });
  const written = () => api.requests.filter(({ method, path }) => method !== "GET" && !path.endsWith("dry_run=true"));

  test("with all of them a preview passes, says what only a write proves, and writes nothing", async () => {
    const zone = structuredClone(api.zone);
    const preview = await stack.preview();
    expect(preview.code, preview.stdout).toBe(0);
    expect(preview.stdout).toMatch(/DNS Edit, SSL and Certificates Edit, Bot Management Edit is known only when `up`/);
    expect(written()).toEqual([]);
    expect(api.zone).toStrictEqual(zone);
  });

  const without = (...gone: readonly string[]) => granted.filter((one) => !gone.includes(one));
  const rules = ["Zone WAF", "Config Rules", "Origin Rules"];

  test.each(["Zone Read", "Zone WAF Write", "Bot Management Write"])(
    "without %s the preview names it",
    async (gone) => {
      tokens[apiToken] = without(gone);
      const preview = await stack.preview();
      expect(preview.code).toBe(1);
      expect(preview.stdout).toContain("Authentication error");
      expect(preview.stdout).toContain(`the permission ${gone.replace("Write", "Read")}`);
      expect(preview.stdout).not.toContain(apiToken);
      expect(written()).toEqual([]);
    },
  );

  test("without the others, and with the rules to read only, the preview names them all at once", async () => {
    tokens[apiToken] = ["Zone Read", "Bot Management Write", ...rules.map((kind) => `${kind} Read`)];
    const preview = await stack.preview();
    expect(preview.code).toBe(1);
    for (const kind of rules)
      expect(preview.stdout).toMatch(new RegExp(`rules that \`up\` would write .* the permission ${kind} Edit`));
    for (const kind of ["DNS", "SSL and Certificates"])
      expect(preview.stdout).toMatch(new RegExp(`can't be read .* the permission ${kind} Edit`));
    expect(preview.stdout).not.toContain(apiToken);
    expect(written()).toEqual([]);
  });
});
