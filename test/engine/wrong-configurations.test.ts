/** What YAML, the engine and its encryption make of wrong configurations. test/infra/config has each fault. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { type secrets, stackFile } from "../fixtures.ts";
import { type ProgramStack, programStack } from "./program-stack.ts";

let all: ProgramStack;
/** The stack file without a fault, and its encrypted secrets. */
let text: string;
let encrypted: Readonly<Record<keyof typeof secrets, object>>;
beforeAll(async () => {
  all = await programStack({ starts: true });
  text = readFileSync(all.stack.stackFile, "utf8");
  encrypted = parse(text).config["pushgate:secrets"];
});
beforeEach(() => writeFileSync(all.stack.stackFile, text));
afterAll(() => all?.close());

const [host] = stackFile["pushgate:hosts"];
const [hook, other] = stackFile["pushgate:hooks"];
const [long, token] = ["x".repeat(40), "Bearer 0123456789"];

type Keys = Record<string, unknown>;
test.each<[what: string, config: () => Keys, secrets: Keys, ...faults: string[]]>([
  [
    "values that YAML reads as another type, and keys that are left out",
    () => ({
      ...{ "pushgate:zone": undefined, "pushgate:edge": "pro" },
      // As `pulumi config set` writes it without --path.
      "pushgate:hosts[0].state": "absent",
      "pushgate:hosts": [{ ...host, name: 7, originPort: "8443" }],
      "pushgate:hooks": [
        { ...hook, branch: true },
        { ...other, branch: "新分支/50%#ünï" },
      ],
      "pushgate:limits": { bodyBytes: 1e9 },
    }),
    {},
    "pushgate:zone is empty. Use a DNS name",
    'pushgate:edge is "pro". Use an object',
    "pushgate:hosts[0].state is a part of another key, written without --path. Run: npx pulumi config rm",
    "pushgate:hosts[0].name is 7, which YAML reads as a number: put it in quotes.",
    'pushgate:hosts[0].originPort is "8443". Use a TCP port',
    "pushgate:hooks[0].branch is true, which YAML reads as a boolean: put it in quotes.",
    "pushgate:limits.bodyBytes is 1000000000. Use a number",
  ],
  [
    "encrypted secrets",
    () => ({}),
    {
      "pushgate:secrets": { site: { current: long.slice(9), curent: long }, other: { current: long } },
      "cloudflare:apiToken": token,
    },
    "pushgate:secrets.site.current has fewer than 32 characters.",
    "pushgate:secrets.site.curent is not a key pushgate knows. Did you mean current?",
    "pushgate:secrets.other belongs to no hook. Correct the hook's name, or run: npx pulumi config rm --path",
    "cloudflare:apiToken has characters that no token has, such as a space.",
  ],
  [
    "plain text beside encrypted secrets",
    () => ({
      "pushgate:secrets": { ...encrypted, site: { ...encrypted.site, current: long } },
      "cloudflare:apiToken": token,
    }),
    {},
    "pushgate:secrets.site.current is plain text beside encrypted secrets. Make a new secret",
    "cloudflare:apiToken is plain text. Make a new token",
  ],
  [
    "plain text alone",
    () => ({ "pushgate:secrets": { site: { current: long }, docs: { current: `${long}y` } } }),
    {},
    "pushgate:secrets is plain text. For each hook, run: npx pulumi config set --secret --path",
  ],
  [
    "missing secrets, and an unknown key",
    () => ({ "pushgate:secrets": undefined, "cloudflare:apiToken": undefined, "pushgate:limit": { bodyBytes: 1024 } }),
    {},
    "pushgate:limit is not a key pushgate knows. Did you mean limits?",
    ...["pushgate:secrets.site is missing. Run: ", "pushgate:secrets.docs is missing. Run: "],
    "cloudflare:apiToken is missing: pushgate reads it from the stack's configuration",
  ],
])(
  "a preview reports each fault of %s, before any request, and quotes no secret",
  async (_, config, secrets, ...wanted) => {
    all.stack.configure(config());
    await all.stack.setSecrets(secrets);
    const run = await all.stack.preview();
    expect(run.code, run.stdout).toBe(1);
    const [error = "", ...more] = run.diagnostics.filter(({ severity }) => severity === "error");
    const [count, ...faults] = (error as { message: string }).message.trimEnd().split("\n");
    const begins = (fault: string) => wanted.find((one) => fault.trim().startsWith(one)) ?? fault;
    expect([more, faults.map(begins).sort()]).toEqual([[], [...wanted].sort()]);
    expect(count).toMatch(/^\d faults? in the stack configuration\. Nothing was changed\.$/);
    const printed = run.stdout + run.stderr;
    expect(printed).not.toMatch(/^\s+at |file:\/\/|node:internal|unhandled/m);
    for (const word of [long.slice(9), token]) expect(printed).not.toContain(word);
    expect(run.steps.map(({ type }) => type)).toEqual(["pulumi:pulumi:Stack"]);
    expect([all.api.requests, existsSync(all.ssh.log)]).toEqual([[], false]);
  },
);
