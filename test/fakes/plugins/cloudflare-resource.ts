/**
 * A resource of the fake cloudflare plugin, from a description of its API. Like a bridged provider, a diff compares
 * what the program declares, and ignores what the API fills in.
 */
import { ApiError } from "./cloudflare-api.ts";
import { hasUnknown, type Props, type Refusal, type Resource, unknown } from "./provider.ts";

export type Kind = {
  readonly required: readonly string[];
  readonly optional?: readonly string[];
  /** Outputs that are known only after the creation. */
  readonly computed?: readonly string[];
  /** Inputs whose change needs a new object; "all" if the API has no update. */
  readonly replaces: readonly string[] | "all";
  /** The API rejects a second object beside the first. */
  readonly deleteBeforeReplace?: boolean;
  /** Inputs that the API never returns: a refresh keeps the state's value. */
  readonly writeOnly?: readonly string[];
  /** The id for `pulumi import`, with named groups: "zones/<zone>/<ruleset>". */
  readonly importId: RegExp;
  /** The resource's id, from its outputs. */
  id(outputs: Props): string;
  create(inputs: Props): Promise<Props>;
  read(id: string, known: Props): Promise<Props>;
  update?(id: string, inputs: Props): Promise<Props>;
  /** Absent if the API has no delete: a removal then changes nothing. */
  delete?(id: string, outputs: Props): Promise<void>;
};

/** Fields that the API fills in if the program leaves them out. */
const filledIn = new Set(["id", "ref", "version", "lastUpdated", "categories"]);

const empty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (typeof value === "object" && Object.values(value).every(empty));

/** A rule is on by default. */
const fillsIn = (key: string, value: unknown): boolean =>
  filledIn.has(key) || empty(value) || (key === "enabled" && value === true);

/** Whether the live value equals the wanted one. Other fields may only be those that the API fills in. */
function fits(wanted: unknown, live: unknown): boolean {
  if (wanted === unknown) return false;
  if (empty(wanted)) return empty(live);
  if (Array.isArray(wanted))
    return (
      Array.isArray(live) && live.length === wanted.length && wanted.every((value, index) => fits(value, live[index]))
    );
  if (typeof wanted !== "object") return wanted === live;
  if (typeof live !== "object" || live === null) return false;
  const [want, have] = [wanted as Props, live as Props];
  return [...new Set([...Object.keys(want), ...Object.keys(have)])].every((key) =>
    key in want ? fits(want[key], have[key]) : fillsIn(key, have[key]),
  );
}

/** The live value without fields that the API filled in, so that a refresh shows only drift. */
function shapedAs(old: unknown, live: unknown): unknown {
  if (Array.isArray(live))
    return live.map((value, index) => shapedAs(Array.isArray(old) ? old[index] : undefined, value));
  if (typeof live !== "object" || live === null) return live;
  const said = (typeof old === "object" && old !== null ? old : {}) as Props;
  return Object.fromEntries(
    Object.entries(live)
      .filter(([key, value]) => key in said || !fillsIn(key, value))
      .map(([key, value]) => [key, shapedAs(said[key], value)]),
  );
}

export const pick = (props: Props, keys: readonly string[]): Props =>
  Object.fromEntries(keys.filter((key) => !empty(props[key])).map((key) => [key, props[key]]));

const withoutNull = (props: Props): Props =>
  Object.fromEntries(Object.entries(props).filter(([, value]) => value !== null && value !== undefined));

export function resource(kind: Kind): Resource {
  const inputKeys = [...kind.required, ...(kind.optional ?? [])];
  const durable =
    "This resource cannot be destroyed from Terraform. If you create this resource, it will be present in the API until manually deleted.";
  const outputsOf = (inputs: Props, answer: Props): Props => ({ ...inputs, ...withoutNull(answer) });
  return {
    deleteBeforeReplace: kind.deleteBeforeReplace === true,
    check: (inputs) => [
      ...kind.required
        .filter((key) => inputs[key] === undefined || inputs[key] === null)
        .map((property): Refusal => ({ property, reason: `Missing required property '${property}'` })),
      ...Object.keys(inputs)
        .filter((key) => !inputKeys.includes(key))
        .map((property): Refusal => ({ property, reason: `an unexpected argument: ${property}` })),
    ],
    async diff(old, inputs, { log, urn }) {
      if (!kind.delete) await log("warning", `Resource Destruction Considerations: ${durable}`, urn);
      const keys = [...new Set([...Object.keys(inputs), ...Object.keys(old.inputs)])];
      const changed = keys.filter((key) => inputKeys.includes(key) && !fits(inputs[key], old.outputs[key]));
      return {
        changed,
        replaces: kind.replaces === "all" ? changed : changed.filter((key) => kind.replaces.includes(key)),
      };
    },
    async create(inputs, { preview, log, urn }) {
      if (!preview) {
        const outputs = outputsOf(inputs, await kind.create(inputs));
        return { id: kind.id(outputs), outputs };
      }
      if (!kind.delete) await log("warning", `Resource Destruction Considerations: ${durable}`, urn);
      const computed = Object.fromEntries((kind.computed ?? []).map((key) => [key, unknown]));
      return { id: "", outputs: { ...computed, ...inputs } };
    },
    async read(id, old) {
      // An import has no state, so the id holds the parts of the path.
      const parts = Object.keys(old.outputs).length === 0 ? kind.importId.exec(id)?.groups : old.outputs;
      if (!parts) throw new Error(`the import id ${JSON.stringify(id)} is not of the form ${kind.importId.source}`);
      const key = Object.keys(old.outputs).length === 0 ? String(parts.id ?? parts.zoneId) : id;
      try {
        const kept = pick(old.outputs, kind.writeOnly ?? []);
        const answer = await kind.read(key, parts as Props);
        const outputs = { ...pick(parts as Props, ["zoneId"]), ...kept, ...withoutNull(answer) } as Props;
        const given = Object.keys(old.inputs).length > 0 ? old.inputs : pick(outputs, inputKeys);
        const inputs = shapedAs(given, pick(outputs, Object.keys(given))) as Props;
        return { id: kind.id({ ...outputs, id: outputs.id ?? key }), inputs, outputs };
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },
    async update(id, old, inputs, { preview }) {
      if (!kind.update) throw new Error("every change replaces it");
      // Outputs that an update does not change stay known.
      if (preview) return { ...old.outputs, ...inputs, ...(hasUnknown(inputs) ? { status: unknown } : {}) };
      return { ...pick(old.outputs, kind.computed ?? []), ...outputsOf(inputs, await kind.update(id, inputs)) };
    },
    async delete(id, outputs, { log, urn }) {
      if (kind.delete) return kind.delete(id, outputs);
      const undone =
        "Applying this resource destruction will remove the resource from the state but will not change it in the API.";
      await log("warning", `Resource Destruction Considerations: ${undone}`, urn);
    },
  };
}
