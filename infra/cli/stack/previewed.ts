/** What a preview found, by the engine's log of its events: what the program reports, and each other step. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { commandOf, type Drift, driftIn, nameOf } from "../../contract.ts";

type State = {
  readonly custom?: boolean;
  readonly parent?: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
} | null;
type Step = {
  readonly op: string;
  readonly urn: string;
  readonly type: string;
  readonly diffs?: readonly string[] | null; // properties, inputs or not
  readonly old: State;
  readonly new: State;
};
type Event = {
  readonly diagnosticEvent?: { readonly message: string };
  readonly resourcePreEvent?: { readonly metadata: Step };
};

/** Of a replacement the engine shows three steps, of which `replace` is one. */
const changes = ["create", "update", "replace", "delete"];

/** The items of a resource that `up` would change. Those of a command, a script for the host, say nothing to a reader. */
export function stepDrift({ op, urn, type, diffs, old, new: wanted }: Step): Drift[] {
  const state = wanted ?? old;
  if (!changes.includes(op) || !state?.custom || type.startsWith("pulumi:")) return [];
  const [name, above] = [nameOf(urn), state.parent ?? ""];
  const host = above.includes("::pushgate:index:Host::") ? nameOf(above) : null;
  const isCommand = type.startsWith("command:");
  const layer = isCommand && host !== null ? name.slice(commandOf({ name: host }, "").length) : name;
  const drift = (item: string, before: unknown, after: unknown) => ({ host, layer, item, kind: op, before, after });
  if (isCommand) return [drift(name, null, null)];
  const [is, declared] = [old?.inputs ?? {}, wanted?.inputs ?? {}];
  const keys = (diffs ?? []).filter((key) => key in { ...is, ...declared });
  if (old === null || wanted === null || keys.length === 0) return [drift(name, old && is, wanted && declared)];
  return keys.map((key) => drift(key, is[key] ?? null, declared[key] ?? null));
}

/** The steps of a resource of which the program reports items are left out. `log`: a file, of 4 MB a host. */
export async function readPreviewed(log: string): Promise<Drift[]> {
  const [reported, steps]: [Drift[], Drift[]] = [[], []];
  for await (const line of createInterface({ input: createReadStream(log) })) {
    const { diagnosticEvent, resourcePreEvent } = JSON.parse(line) as Event;
    if (diagnosticEvent) reported.push(...[driftIn(diagnosticEvent.message)].filter((one) => one !== undefined));
    if (resourcePreEvent) steps.push(...stepDrift(resourcePreEvent.metadata));
  }
  const isReported = (step: Drift) => reported.some(({ host, layer }) => host === step.host && layer === step.layer);
  return [...reported, ...steps.filter((step) => !isReported(step))];
}
