/**
 * Takes over what exists at the edge already: in a zone that had rules before pushgate, and after a state was lost.
 *
 *   npm run adopt                    shows what it would take over, and asks
 *   npm run adopt -- --yes           does it
 *   npm run adopt -- --stack prod    another stack than the selected one
 *
 * What the program declares and the state lacks is what a preview would create; the edge is asked which of that is
 * there; `pulumi import` writes it into the state. The edge itself is not changed: that is for the `up` after it.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { parseArgs } from "node:util";
import { ApiRefusal, edgeApi } from "../edge/api.ts";
import { adoptable, type Found, find, type Missing, type Zone } from "./existing.ts";
import { main, nameOf, pulumi, Refused, readConfig, stackArgs } from "./stack.ts";

type Step = { op: string; urn: string; newState?: { type: string; inputs?: Missing["inputs"] } };
type Diagnostic = { severity?: string; message?: string };

/** What is declared, and what of it `up` would create. */
type Plan = { readonly declared: readonly Missing[]; readonly missing: readonly Missing[] };

/** Throws where there is no preview, since nothing is adopted that may not come to pass. */
async function plan(stack: readonly string[]): Promise<Plan> {
  const { code, stdout, stderr } = await pulumi(["preview", "--json", "--show-sames", "--non-interactive", ...stack]);
  let digest: { steps?: Step[]; diagnostics?: Diagnostic[] } = {};
  try {
    digest = JSON.parse(stdout) as typeof digest;
  } catch {
    // The engine refused before the program ran, and said so on standard error.
  }
  if (code !== 0) {
    const errors = (digest.diagnostics ?? []).filter(({ severity }) => severity === "error");
    const said = [...errors.map(({ message = "" }) => message.trim()), stderr.trim()].filter(Boolean);
    throw new Refused(`there is no preview to go by, so nothing was looked for:\n${said.join("\n")}`);
  }
  const steps = (digest.steps ?? []).flatMap(({ op, urn, newState }) =>
    newState === undefined ? [] : [{ op, type: newState.type, name: nameOf(urn), inputs: newState.inputs ?? {} }],
  );
  return { declared: steps, missing: steps.filter(({ op }) => op === "create") };
}

type Adoption = Missing & Found;

async function look(stack: readonly string[]): Promise<Adoption[]> {
  const config = await readConfig(stack, "--show-secrets");
  const [token, baseUrl, zoneName] = ["cloudflare:apiToken", "cloudflare:baseUrl", "pushgate:zone"].map(
    (key) => config[key]?.value,
  );
  if (token === undefined)
    throw new Refused("cloudflare:apiToken is not set: pulumi config set --secret cloudflare:apiToken");
  const { declared, missing } = await plan(stack);
  const wanted = missing.filter(adoptable);
  if (wanted.length === 0) return [];
  const api = edgeApi({ baseUrl: baseUrl ?? "https://api.cloudflare.com/client/v4", token });
  const [zone] = await api.list<Zone>(`zones?name=${encodeURIComponent(zoneName ?? "")}`);
  if (zone === undefined) throw new Refused(`the token sees no zone ${zoneName}`);
  return Promise.all(wanted.map(async (one) => ({ ...one, ...(await find(api, one, zone, declared)) })));
}

function show(adoptions: readonly Adoption[]): void {
  const kind = (type: string) => type.split(":").at(-1);
  for (const { type, name, id, what, notes } of adoptions) {
    console.log(id === undefined ? `  ${name}: not there` : `  ${name}: ${what}\n    ${kind(type)} ${id}`);
    for (const note of notes) console.log(`    ${note}`);
  }
}

async function take(adoptions: readonly Adoption[], stack: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-adopt-"));
  try {
    const file = join(folder, "import.json");
    const resources = adoptions.map(({ type, name, id }) => ({ type, name, id }));
    writeFileSync(file, JSON.stringify({ resources }));
    // Protected, as import does by itself: until the first `up` no hook keeps the zone's own rules from a destroy.
    const flags = ["--yes", "--skip-preview", "--generate-code=false", "--non-interactive"];
    const { code, stderr } = await pulumi(["import", "--file", file, ...flags, ...stack], true);
    if (code !== 0) throw new Refused(`pulumi import failed, see above; the edge was not changed. ${stderr.trim()}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function agreed(): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    console.log("Nothing was done: npm run adopt -- --yes takes them over.");
    return false;
  }
  const line = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await line.question("Take them over? The edge is not changed by it. [y/N] ");
  line.close();
  return /^y(es)?$/i.test(answer.trim());
}

async function adopt(): Promise<void> {
  const { values } = parseArgs({ options: { yes: { type: "boolean", short: "y" }, stack: { type: "string" } } });
  const stack = stackArgs(values.stack);
  console.log("Asking for a preview, to know what is declared and not in the state.");
  const found = await look(stack);
  if (found.length > 0) console.log("\nDeclared, not in the state, and at the edge:");
  show(found);
  const there = found.filter(({ id }) => id !== undefined);
  console.log(
    "\nMachines need no adopting: their commands run again, find each machine as it is to be, and change nothing.",
  );
  if (there.length === 0) return console.log("Nothing to adopt.");
  if (!values.yes && !(await agreed())) return;
  await take(there, stack);
  console.log(`\n${there.length} adopted. Next: npx pulumi preview, read it, npx pulumi up.`);
}

await main("adopt", async () => {
  try {
    await adopt();
  } catch (error) {
    throw error instanceof ApiRefusal ? new Refused(error.message) : error;
  }
});
