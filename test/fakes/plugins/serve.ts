/**
 * What all fake plugins share: a gRPC server on loopback, whose port is the first line of standard output, and a client
 * of the engine for log lines.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { flushCompileCache } from "node:module";
import grpc from "@grpc/grpc-js";
import engineService from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engineMessages from "@pulumi/pulumi/proto/engine_pb.js";
import pluginMessages from "@pulumi/pulumi/proto/plugin_pb.js";

export type Severity = "debug" | "info" | "warning" | "error";

/** Prints a line in the engine's display, below the resource if there is one. It never makes an operation fail. */
export type Log = (severity: Severity, message: string, urn?: string) => Promise<void>;

/** The engine's limit of 400 MB for a message; the library's default of 4 MB would reject a large state. */
const options = { "grpc.max_receive_message_length": 400 << 20, "grpc.max_send_message_length": 400 << 20 };

/** The connection that a call came by. */
const connection = new AsyncLocalStorage<string>();

/** A value for each connection: plugins that stay serve several engines, and one engine may have two of a provider. */
export function perConnection<Value>(make: () => Value): () => Value {
  const values = new Map<string, Value>();
  return () => {
    const key = connection.getStore() ?? "";
    if (!values.has(key)) values.set(key, make());
    return values.get(key)!;
  };
}

type Call<Request> = { readonly request: Request; getPeer(): string };

/** Makes a gRPC handler of a function; the message of an error becomes the call's error text, which the engine prints. */
export function answering<Request, Response>(answer: (request: Request) => Response | Promise<Response>) {
  return (call: Call<Request>, done: (error: Partial<grpc.StatusObject> | null, value?: Response) => void) => {
    connection
      .run(call.getPeer(), async () => answer(call.request))
      .then(
        (value) => done(null, value),
        (error: Error) => done({ code: grpc.status.UNKNOWN, details: error.message }),
      );
  };
}

export const pluginInfo = (version: string) => answering(() => new pluginMessages.PluginInfo().setVersion(version));

/** Serves until the engine, or the test, ends the process. Returns the port. */
export async function serve(
  service: grpc.ServiceDefinition,
  implementation: grpc.UntypedServiceImplementation,
): Promise<number> {
  const server = new grpc.Server(options);
  server.addService(service, implementation);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  // As text, because Node colours a number on a terminal.
  console.log(String(port));
  // Node writes the cache at exit, but the engine kills plugins, and each start would compile anew: 0.2 s of a core.
  flushCompileCache();
  return port;
}

/** The engine's address: the first argument that is not a flag. */
export const engineAddress = (): string => process.argv.slice(2).find((argument) => !argument.startsWith("-")) ?? "";

export function engineLog(address: string): Log {
  const client = new engineService.EngineClient(address, grpc.credentials.createInsecure(), options);
  const severities = engineMessages.LogSeverity;
  // One call after the other, because concurrent calls arrive in any order and would shuffle a script's lines.
  let last: Promise<void> = Promise.resolve();
  return (severity, message, urn = "") => {
    const level = severities[severity.toUpperCase() as Uppercase<Severity>];
    const request = new engineMessages.LogRequest().setSeverity(level).setMessage(message).setUrn(urn);
    last = last.then(() => new Promise((resolve) => client.log(request, () => resolve())));
    return last;
  };
}
