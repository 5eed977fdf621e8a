/** Takes over existing objects at Cloudflare, by a preview and `pulumi import`: decision 008. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { printable } from "../../../service/printable.ts";
import { tried } from "../../../service/tried.ts";
import { nameOf, vendorUrl } from "../../contract.ts";
import { cloudflareApi, zoneNamed } from "../../edge/api.ts";
import { UserError } from "../../user-error.ts";
import { command, confirm, type Options, ofStack } from "../command.ts";
import { accessOf, jsonOf, pulumi } from "../stack.ts";
import { adoptable, find, type Live, type Resource } from "./live-objects.ts";

type Step = { op: string; urn: string; newState?: { type: string; parent?: string; inputs?: Resource["inputs"] } };
type Digest = { steps?: Step[]; diagnostics?: { severity?: string; message?: string }[] };

async function plan(stack: readonly string[]) {
  const { code, stdout, stderr } = await pulumi(["preview", "--json", "--show-sames", "--non-interactive", ...stack]);
  // Without one, pulumi stopped before the program ran, and printed why on standard error.
  const digest = (tried(() => jsonOf(stdout)) ?? {}) as Digest;
  if (code !== 0) {
    const errors = (digest.diagnostics ?? []).filter(({ severity }) => severity === "error");
    const texts = [...errors.map(({ message = "" }) => message.trim()), stderr.trim()].filter(Boolean);
    throw new UserError(`the preview failed, so nothing was looked for. Fix it first:\n${texts.join("\n")}`);
  }
  const steps = (digest.steps ?? []).flatMap(({ op, urn, newState }) =>
    newState === undefined ? [] : [{ op, urn, name: nameOf(urn), inputs: {}, ...newState }],
  );
  return { declared: steps, missing: steps.filter(({ op }) => op === "create") };
}

/** `isNew`: whether the row of the preview above it is to be created, too. */
type Adoption = Resource & Live & { readonly parent?: string; readonly isNew: boolean };

async function findAll(stack: readonly string[]): Promise<Adoption[]> {
  const { token, baseUrl = vendorUrl, zone: zoneName } = await accessOf(stack);
  const { declared, missing } = await plan(stack);
  const wanted = missing.filter(adoptable);
  if (wanted.length === 0) return [];
  // The preview has read this zone with this token.
  const api = cloudflareApi({ baseUrl, token: token! });
  const zone = (await zoneNamed(api, zoneName!))!;
  return Promise.all(
    wanted.map(async (one) => {
      const isNew = missing.some(({ urn }) => urn === one.parent);
      return { ...one, isNew, ...(await find(api, one, zone, declared)) };
    }),
  );
}

async function importAll(adoptions: readonly Adoption[], stack: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-adopt-"));
  try {
    const file = join(folder, "import.json");
    const parentsOf = (isNew: boolean): string[] =>
      adoptions.flatMap(({ parent, ...one }) => (one.isNew === isNew && parent ? [parent] : []));
    const rows = [...new Set(parentsOf(true))].map((urn) => ({
      ...{ type: urn.split("::")[2], name: urn, logicalName: nameOf(urn), component: true },
    }));
    const own = adoptions.map(({ type, name, id, parent }) => ({ type, name, id, parent }));
    const nameTable = Object.fromEntries(parentsOf(false).map((urn) => [urn, urn]));
    writeFileSync(file, JSON.stringify({ nameTable, resources: [...rows, ...own] }));
    const flags = ["--yes", "--skip-preview", "--generate-code=false", "--non-interactive"];
    const { code } = await pulumi(["import", "--file", file, ...flags, ...stack], { shown: 1 });
    if (code !== 0) throw new UserError("pulumi import failed, see above; nothing changed at Cloudflare.");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const adopt = command({
  takes: ["yes"],
  examples: [
    ["adopt", "lists what it would take over, and prompts"],
    ["adopt --yes", "does it"],
  ],
}).action(async (options: Options) => {
  const stack = ofStack(options);
  console.log("Running a preview, which lists what is declared and not in the state.");
  const found = await findAll(stack);
  if (found.length > 0) console.log("\nDeclared and not in the state:");
  for (const { type, name, id, what, notes = [] } of found) {
    const said = id === undefined ? "does not exist" : `${printable(`${what}`)}\n    ${type.split(":").at(-1)} ${id}`;
    console.log(`  ${name}: ${said}`);
    for (const note of notes) console.log(`    ${printable(note)}`);
  }
  const existing = found.filter(({ id }) => id !== undefined);
  console.log("\nHosts need no adopting: the next `up` compares each with the declaration and applies what differs.");
  if (existing.length === 0) return console.log("Nothing to adopt.");
  await confirm(`Take these ${existing.length} over? Nothing changes at Cloudflare by that.`, options);
  await importAll(existing, stack);
  console.log(`\n${existing.length} adopted. Next: npx pulumi preview, read it, npx pulumi up.`);
});
