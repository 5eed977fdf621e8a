/**
 * What all plugins share: a gRPC server on loopback whose port is the first line of standard output, and the road back
 * to the engine for log lines. Plugins say nothing else on standard output before that line.
 */
import { flushCompileCache } from "node:module";
import grpc from "@grpc/grpc-js";
import engineService from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engineMessages from "@pulumi/pulumi/proto/engine_pb.js";
import pluginMessages from "@pulumi/pulumi/proto/plugin_pb.js";

export type Severity = "debug" | "info" | "warning" | "error";

/** Prints a line in the engine's display, under the resource where there is one. Never fails an operation. */
export type Log = (severity: Severity, message: string, urn?: string) => Promise<void>;

/** Answers one call: the response message, or a throw that the engine prints. */
type Answer<Request, Response> = (request: Request) => Response | Promise<Response>;

/** The engine splits its gRPC messages at 400 MB; the library's own 4 MB would refuse a large state. */
const options = { "grpc.max_receive_message_length": 400 << 20, "grpc.max_send_message_length": 400 << 20 };

/** A gRPC handler from a function: its throw becomes the call's error text. */
export function answering<Request, Response>(answer: Answer<Request, Response>) {
  return (call: { request: Request }, done: (error: Partial<grpc.StatusObject> | null, value?: Response) => void) => {
    Promise.resolve(call.request)
      .then(answer)
      .then(
        (value) => done(null, value),
        (error: unknown) =>
          done({
            code: grpc.status.UNKNOWN,
            details: error instanceof Error ? error.message : String(error),
          }),
      );
  };
}

export const pluginInfo = (version: string) =>
  answering(() => {
    const info = new pluginMessages.PluginInfo();
    info.setVersion(version);
    return info;
  });

/** Serves until the engine ends the process. */
export async function serve(
  service: grpc.ServiceDefinition,
  implementation: grpc.UntypedServiceImplementation,
): Promise<void> {
  const server = new grpc.Server(options);
  server.addService(service, implementation);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  // Text, or Node colours the number on a terminal.
  console.log(String(port));
  // Node writes it on a quiet exit, and the engine kills plugins: each would compile everything anew, 0.2 s of a core.
  flushCompileCache();
}

/** The engine's address is the first argument that is no flag. */
export const engineAddress = (): string => process.argv.slice(2).find((argument) => !argument.startsWith("-")) ?? "";

export function engineLog(address: string): Log {
  const client = new engineService.EngineClient(address, grpc.credentials.createInsecure(), options);
  const severities = engineMessages.LogSeverity;
  // One after the other: calls in flight together arrive in any order, and a script's lines would be shuffled.
  let last: Promise<void> = Promise.resolve();
  return (severity, message, urn = "") => {
    const request = new engineMessages.LogRequest();
    request.setSeverity(severities[severity.toUpperCase() as Uppercase<Severity>]);
    request.setMessage(message);
    request.setUrn(urn);
    last = last.then(() => new Promise((resolve) => client.log(request, () => resolve())));
    return last;
  };
}
