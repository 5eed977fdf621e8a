/** What the two fakes of the nodejs language host share: the calls of the engine, but how a program is run. */
import languageService from "@pulumi/pulumi/proto/language_grpc_pb.js";
import type { RunRequest } from "@pulumi/pulumi/proto/language_pb.js";
import languageMessages from "@pulumi/pulumi/proto/language_pb.js";
import { answering, engineAddress, perConnection, pluginInfo, serve } from "./serve.ts";

/** How a program ended. `bail`: with an error that is reported already; `error`: for the engine to report. */
export type End = { readonly bail?: boolean; readonly error?: string };

/** Serves a language host until the engine, or the test, ends the process. Returns the port. */
export function serveLanguage(run: (request: RunRequest, engine: string) => Promise<End>): Promise<number> {
  const engine = perConnection(() => ({ address: engineAddress() }));
  const handlers = {
    handshake: answering((request: InstanceType<typeof languageMessages.LanguageHandshakeRequest>) => {
      engine().address = request.getEngineAddress() || engine().address;
      return new languageMessages.LanguageHandshakeResponse();
    }),
    getPluginInfo: pluginInfo("3.259.0"),
    // Empty: the engine then loads each plugin when a resource first needs it.
    getRequiredPackages: answering(() => new languageMessages.GetRequiredPackagesResponse()),
    run: answering(async (request: RunRequest) => {
      const { bail, error } = await run(request, engine().address);
      return new languageMessages.RunResponse().setBail(bail === true).setError(error ?? "");
    }),
  };
  return serve(languageService.LanguageRuntimeService as never, handlers as never);
}
