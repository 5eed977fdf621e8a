/**
 * What the fake plugins share: a resource provider over plain objects. It declares that it accepts no secrets, so the
 * engine unwraps inputs and marks outputs of the same name secret again. In a preview, unknown values arrive as
 * `unknown`.
 */
import services from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import messages from "@pulumi/pulumi/proto/provider_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { answering, engineAddress, engineLog, type Log, perConnection, pluginInfo, serve } from "./serve.ts";

export type Props = { readonly [name: string]: unknown };

/** The protocol's value for "known only after an update". */
export const unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Top-level inputs that differ, those of them that need a new object, and outputs that an update would compute anew. */
export type Difference = {
  readonly changed: readonly string[];
  readonly replaces: readonly string[];
  readonly computed?: readonly string[];
};

export type Resource = {
  /** Why an input is rejected. */
  check(inputs: Props): { readonly property: string; readonly reason: string }[];
  diff(old: { inputs: Props; outputs: Props }, inputs: Props): Difference;
  /** A preview creates nothing and returns the outputs that are known. */
  create(inputs: Props, context: Context): Promise<{ id: string; outputs: Props }>;
  /** Returns the live object; undefined if it does not exist. Absent if the real provider cannot read. */
  read?(id: string, old: { inputs: Props; outputs: Props }): Promise<Live | undefined>;
  update(id: string, old: { inputs: Props; outputs: Props }, inputs: Props, context: Context): Promise<Props>;
  delete(id: string, outputs: Props): Promise<void>;
};

export type Live = { readonly id: string; readonly inputs: Props; readonly outputs: Props };

export type Context = { readonly preview: boolean; readonly name: string; readonly urn: string; readonly log: Log };

export type Provider = {
  readonly version: string;
  configure?(config: Props): void;
  readonly resources: { readonly [token: string]: Resource };
  readonly functions?: { readonly [token: string]: () => Promise<Props> };
};

/** The key that marks a wrapped value, and its value for a secret. Configuration always arrives wrapped. */
const [signature, secret] = ["4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"];

function unwrapped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unwrapped);
  if (typeof value !== "object" || value === null) return value;
  const object = value as Props;
  if (object[signature] === secret) return unwrapped(object.value);
  return Object.fromEntries(Object.entries(object).map(([key, inner]) => [key, unwrapped(inner)]));
}

const plain = (value: InstanceType<typeof struct.Struct> | undefined): Props =>
  unwrapped(value?.toJavaScript() ?? {}) as Props;

const packed = (props: Props) =>
  // JSON removes undefined, which the protocol lacks.
  struct.Struct.fromJavaScript(JSON.parse(JSON.stringify(props)));

/** What is missing of the required inputs, and what is neither required nor optional. */
export function misfits(inputs: Props, required: readonly string[], optional: readonly string[] = []) {
  const missing = required.filter((name) => inputs[name] === undefined || inputs[name] === null);
  const strange = Object.keys(inputs).filter((name) => ![...required, ...optional].includes(name));
  return [
    ...missing.map((property) => ({ property, reason: `Missing required property '${property}'` })),
    ...strange.map((property) => ({ property, reason: `an unexpected argument: ${property}` })),
  ];
}

/** Serves a provider until the engine, or the test, ends the process. Returns the port. */
export async function serveProvider(provider: Provider): Promise<number> {
  const engine = perConnection<{ log?: Log }>(() => ({}));
  const log = (): Log => (engine().log ??= engineLog(engineAddress()));
  const kindOf = (request: { getUrn(): string }): Resource => {
    const token = request.getUrn().split("::")[2]!.split("$").at(-1)!;
    const found = provider.resources[token];
    if (!found) throw new Error(`the fake plugin has no resource ${token}. Add it in test/fakes/plugins.`);
    return found;
  };
  /** `urn:pulumi:stack::project::parent$type::name` */
  const context = (urn: string, preview: boolean): Context => ({
    ...{ preview, urn, name: urn.split("::").slice(3).join("::"), log: log() },
  });

  const handlers = {
    handshake: answering((request: InstanceType<typeof messages.ProviderHandshakeRequest>) => {
      if (request.getEngineAddress()) engine().log = engineLog(request.getEngineAddress());
      return new messages.ProviderHandshakeResponse();
    }),
    // After the handshake with a plugin that the engine did not start. The request holds the same address.
    attach: answering(() => new empty.Empty()),
    getPluginInfo: pluginInfo(provider.version),
    checkConfig: answering((request: InstanceType<typeof messages.CheckRequest>) =>
      new messages.CheckResponse().setInputs(request.getNews()),
    ),
    diffConfig: answering(() => new messages.DiffResponse()),
    configure: answering((request: InstanceType<typeof messages.ConfigureRequest>) => {
      provider.configure?.(plain(request.getArgs()));
      return new messages.ConfigureResponse().setSupportspreview(true);
    }),
    // A real provider reports a failed function as an error of the stack, whatever the program does with it.
    invoke: answering(async (request: InstanceType<typeof messages.InvokeRequest>) => {
      try {
        const called = provider.functions?.[request.getTok()];
        if (!called)
          throw new Error(`the fake plugin has no function ${request.getTok()}. Add it in test/fakes/plugins.`);
        return new messages.InvokeResponse().setReturn(packed(await called()));
      } catch (error) {
        await log()("error", (error as Error).message);
        throw error;
      }
    }),
    check: answering((request: InstanceType<typeof messages.CheckRequest>) => {
      const failures = kindOf(request)
        .check(plain(request.getNews()))
        .map(({ property, reason }) => new messages.CheckFailure().setProperty(property).setReason(reason));
      return new messages.CheckResponse().setInputs(request.getNews()).setFailuresList(failures);
    }),
    diff: answering((request: InstanceType<typeof messages.DiffRequest>) => {
      const old = { inputs: plain(request.getOldInputs()), outputs: plain(request.getOlds()) };
      const found = kindOf(request).diff(old, plain(request.getNews()));
      const changed = found.changed.filter((key) => !request.getIgnorechangesList().includes(key));
      const { DIFF_NONE, DIFF_SOME } = messages.DiffResponse.DiffChanges;
      return new messages.DiffResponse()
        .setChanges(changed.length > 0 ? DIFF_SOME : DIFF_NONE)
        .setDiffsList(changed.length > 0 ? [...changed, ...(found.computed ?? [])] : [])
        .setReplacesList(found.replaces.filter((key) => changed.includes(key)));
    }),
    create: answering(async (request: InstanceType<typeof messages.CreateRequest>) => {
      const here = context(request.getUrn(), request.getPreview());
      const { id, outputs } = await kindOf(request).create(plain(request.getProperties()), here);
      return new messages.CreateResponse().setId(id).setProperties(packed(outputs));
    }),
    read: answering(async (request: InstanceType<typeof messages.ReadRequest>) => {
      const kind = kindOf(request);
      const [id, response] = [request.getId(), new messages.ReadResponse()];
      // Without a read the state is returned, so a refresh finds no drift.
      if (!kind.read) return response.setId(id).setProperties(request.getProperties()).setInputs(request.getInputs());
      const old = { inputs: plain(request.getInputs()), outputs: plain(request.getProperties()) };
      // An empty id drops the resource from the state.
      const live = (await kind.read(id, old)) ?? { id: "", inputs: {}, outputs: {} };
      return response.setId(live.id).setProperties(packed(live.outputs)).setInputs(packed(live.inputs));
    }),
    update: answering(async (request: InstanceType<typeof messages.UpdateRequest>) => {
      const old = { inputs: plain(request.getOldInputs()), outputs: plain(request.getOlds()) };
      const here = context(request.getUrn(), request.getPreview());
      const outputs = await kindOf(request).update(request.getId(), old, plain(request.getNews()), here);
      return new messages.UpdateResponse().setProperties(packed(outputs));
    }),
    delete: answering(async (request: InstanceType<typeof messages.DeleteRequest>) => {
      await kindOf(request).delete(request.getId(), plain(request.getProperties()));
      return new empty.Empty();
    }),
    cancel: answering(() => new empty.Empty()),
  };
  return serve(services.ResourceProviderService as never, handlers as never);
}
