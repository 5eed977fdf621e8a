/**
 * A resource of the fake cloudflare plugin, from a description of its API. Like a bridged provider, a diff compares
 * what the program declares, and ignores what the API fills in.
 */
import { ApiError } from "./cloudflare-api.ts";
import { misfits, type Props, type Resource, unknown } from "./provider.ts";

export type Kind = {
  readonly required: readonly string[];
  readonly optional?: readonly string[];
  /** Outputs and inputs that the API fills in: unknown in a preview, and listed as changed. */
  readonly computed?: readonly string[];
  /** What the provider fills in, compares and sends for inputs that are left out. */
  readonly defaults?: Props;
  /** Inputs whose change needs a new object; "all" if the API has no update. */
  readonly replaces: readonly string[] | "all";
  /** Inputs that the API never returns: a refresh keeps the state's value. */
  readonly writeOnly?: readonly string[];
  /** The id for `pulumi import`, with named groups: "zones/<zone>/<ruleset>". */
  readonly importId: RegExp;
  /** The resource's id, from its outputs, where it is not their `id`. */
  id?(outputs: Props): string;
  create(inputs: Props): Promise<Props>;
  read(id: string, known: Props): Promise<Props>;
  update?(id: string, inputs: Props): Promise<Props>;
  /** Absent if the API has no delete: a removal then changes nothing. */
  delete?(id: string, outputs: Props): Promise<void>;
};

/** Fields that the API fills in if the program leaves them out. */
const filledIn = new Set(["id", "ref", "version", "lastUpdated"]);

const empty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (typeof value === "object" && Object.values(value).every(empty));

/** A rule is on by default, and only a skip has its `logging` compared. `beside`: the object around. */
const fillsIn = (key: string, value: unknown, beside: Props): boolean =>
  filledIn.has(key) ||
  empty(value) ||
  (key === "enabled" && value === true) ||
  (key === "logging" && beside.action !== "skip");

/** Whether the live value equals the wanted one. Other fields may only be those that the API fills in. */
function fits(wanted: unknown, live: unknown): boolean {
  if (wanted === unknown) return false;
  // The provider distinguishes an empty object or list from an absent one, inside of rules.
  if (typeof wanted === "object" && wanted !== null && Object.keys(wanted).length === 0) return false;
  if (empty(wanted)) return empty(live);
  if (Array.isArray(wanted))
    return (
      Array.isArray(live) && live.length === wanted.length && wanted.every((value, index) => fits(value, live[index]))
    );
  if (typeof wanted !== "object") return wanted === live;
  if (typeof live !== "object" || live === null) return false;
  const [want, have] = [wanted as Props, live as Props];
  return [...new Set([...Object.keys(want), ...Object.keys(have)])].every((key) =>
    key in want ? fits(want[key], have[key]) : fillsIn(key, have[key], have),
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
      .filter(([key, value]) => key in said || !fillsIn(key, value, live as Props))
      .map(([key, value]) => [key, shapedAs(said[key], value)]),
  );
}

const pick = (props: Props, keys: readonly string[]): Props =>
  Object.fromEntries(keys.filter((key) => !empty(props[key])).map((key) => [key, props[key]]));

const unknowns = (keys: readonly string[]): Props => Object.fromEntries(keys.map((key) => [key, unknown]));

const withoutNull = (props: Props): Props =>
  Object.fromEntries(Object.entries(props).filter(([, value]) => value !== null && value !== undefined));

export function resource(kind: Kind): Resource {
  const inputKeys = [...kind.required, ...(kind.optional ?? [])];
  const { computed = [] } = kind;
  /** Of these inputs: the outputs that an update computes anew. */
  const anew = (inputs: Props) => computed.filter((key) => !(key in { ...kind.defaults, ...inputs }));
  const idOf = (outputs: Props): string => kind.id?.(outputs) ?? String(outputs.id);
  const outputsOf = (inputs: Props, answer: Props): Props => ({ ...inputs, ...withoutNull(answer) });
  return {
    check: (inputs) => misfits(inputs, kind.required, kind.optional),
    diff(old, given) {
      const inputs = { ...kind.defaults, ...given };
      // An input that the API does not fill in is compared although the program leaves it out.
      const bare = inputKeys.filter((key) => !computed.includes(key));
      const keys = [...new Set([...Object.keys(inputs), ...Object.keys(old.inputs), ...bare])];
      const changed = keys.filter((key) => inputKeys.includes(key) && !fits(inputs[key], old.outputs[key]));
      return {
        changed,
        replaces: kind.replaces === "all" ? changed : changed.filter((key) => kind.replaces.includes(key)),
        computed: anew(given),
      };
    },
    async create(inputs, { preview }) {
      if (preview) return { id: "", outputs: { ...unknowns(computed), ...inputs } };
      const outputs = outputsOf(inputs, await kind.create({ ...kind.defaults, ...inputs }));
      return { id: idOf(outputs), outputs };
    },
    async read(id, old) {
      // An import has no state, so the id holds the parts of the path.
      const parts = Object.keys(old.outputs).length === 0 ? kind.importId.exec(id)?.groups : old.outputs;
      if (!parts) throw new Error(`the import id ${JSON.stringify(id)} is not of the form ${kind.importId.source}`);
      const key = Object.keys(old.outputs).length === 0 ? String(parts.id ?? parts.zoneId) : id;
      try {
        const kept = pick(old.outputs, kind.writeOnly ?? []);
        const answer = await kind.read(key, parts as Props);
        const outputs = { ...pick(parts as Props, ["zoneId"]), ...withoutNull(answer), ...kept } as Props;
        const given = Object.keys(old.inputs).length > 0 ? old.inputs : pick(outputs, inputKeys);
        const inputs = shapedAs(given, pick(outputs, Object.keys(given))) as Props;
        return { id: idOf({ ...outputs, id: outputs.id ?? key }), inputs, outputs };
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },
    async update(id, old, inputs, { preview }) {
      if (!kind.update) throw new Error("every change replaces it");
      if (preview) return { ...old.outputs, ...inputs, ...unknowns(anew(inputs)) };
      const answer = await kind.update(id, { ...kind.defaults, ...inputs });
      return { ...pick(old.outputs, computed), ...outputsOf(inputs, answer) };
    },
    delete: async (id, outputs) => kind.delete?.(id, outputs),
  };
}
