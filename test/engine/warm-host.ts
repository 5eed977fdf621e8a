/**
 * A language host that stays between runs of the engine, which connects to it by PULUMI_DEBUG_LANGUAGES. It loads the
 * program's modules once and evaluates only the entry point anew, which saves three quarters of a preview that ends where
 * the program reads its configuration. It prints its port, and reports an error as the SDK's own runner does.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as pulumi from "@pulumi/pulumi";
import languageService from "@pulumi/pulumi/proto/language_grpc_pb.js";
import type { RunRequest } from "@pulumi/pulumi/proto/language_pb.js";
import languageMessages from "@pulumi/pulumi/proto/language_pb.js";
import * as settings from "@pulumi/pulumi/runtime/settings.js";
import * as state from "@pulumi/pulumi/runtime/state.js";
import { answering, pluginInfo, serve } from "../fakes/plugins/serve.ts";

/** The SDK exports it, and leaves it out of its types. */
const { withLocalStorage } = state as unknown as { withLocalStorage: <T>(run: () => Promise<T>) => Promise<T> };

let engine = "";
let runs = 0;
/** Of the current run. The SDK throws most errors of a program where no caller catches them. */
let errors = new Set<unknown>();
process.on("unhandledRejection", (error) => errors.add(error));
process.on("uncaughtException", (error) => errors.add(error));

/** Evaluates the program for one run, and returns whether it ended without an error. One run follows another. */
function evaluate(request: RunRequest): Promise<boolean> {
  errors = new Set();
  // The store of the run reads it when it is made.
  process.env.PULUMI_NODEJS_ROOT_DIRECTORY = request.getInfo()?.getRootDirectory() ?? "";
  return withLocalStorage(async () => {
    settings.resetOptions(
      ...([request.getProject(), request.getStack(), request.getParallel(), engine] as const),
      ...([request.getMonitorAddress(), request.getDryrun(), request.getOrganization()] as const),
    );
    const config = Object.fromEntries(request.getConfigMap().toObject());
    pulumi.runtime.setAllConfig(config, request.getConfigsecretkeysList());
    const entry = pathToFileURL(join(request.getPwd(), request.getProgram()));
    entry.search = String(++runs);
    await pulumi.runtime.runInPulumiStack(() => import(entry.href)).catch((error: unknown) => errors.add(error));
    for (const error of errors) {
      const { message, stack } = error as Error;
      void pulumi.log.error(pulumi.RunError.isInstance(error) ? message : `Running program failed: ${stack}`);
    }
    await settings.disconnect();
    return errors.size === 0;
  });
}

await serve(
  languageService.LanguageRuntimeService as never,
  {
    handshake: answering((request: InstanceType<typeof languageMessages.LanguageHandshakeRequest>) => {
      engine = request.getEngineAddress();
      return new languageMessages.LanguageHandshakeResponse();
    }),
    getPluginInfo: pluginInfo("3.259.0"),
    getRequiredPackages: answering(() => new languageMessages.GetRequiredPackagesResponse()),
    run: answering(async (request: RunRequest) => {
      const response = new languageMessages.RunResponse();
      response.setBail(!(await evaluate(request)));
      return response;
    }),
  } as never,
);
