/**
 * A fake of the nodejs language host that stays between the engine's runs. It loads packages once and evaluates the
 * program's own modules anew in each run, which halves the cost of a run. Unlike the SDK's own runner it ends a run when
 * the engine has answered the program's requests, without waiting for other work, and reports an error by its message,
 * without the resource. A run shares the process with the former one, and so what a package keeps.
 */
import { registerHooks } from "node:module";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import * as pulumi from "@pulumi/pulumi";
import type { RunRequest } from "@pulumi/pulumi/proto/language_pb.js";
import * as settings from "@pulumi/pulumi/runtime/settings.js";
import { type End, serveLanguage } from "./language.ts";

/** The SDK exports them, and leaves them out of its types. */
const { waitForRPCs, signalAndWaitForShutdown } = settings as unknown as Record<
  "waitForRPCs" | "signalAndWaitForShutdown",
  () => Promise<void>
>;

let runs = 0;
/** One run follows another, as they share the process. */
let last: Promise<unknown> = Promise.resolve();
let waiting = 0;
/** Whether a program still runs, although its engine may have ended. */
export const isBusy = (): boolean => waiting > 0;

/** Of the current run. The SDK throws most errors of a program where no caller catches them. */
let errors = new Set<unknown>();
for (const event of ["unhandledRejection", "uncaughtException"])
  process.on(event, (error: Error) => {
    errors.add(error);
    if (isBusy()) return;
    console.error(error);
    process.exit(1);
  });

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    if (runs === 0 || !found.url.startsWith("file:") || found.url.includes("/node_modules/")) return found;
    return { ...found, url: `${found.url}?run=${runs}` };
  },
});

/** Evaluates the program for one run. */
async function evaluate(request: RunRequest, engine: string): Promise<End> {
  errors = new Set();
  runs += 1;
  // The SDK's store of a run, which reads this variable when it is made.
  Reflect.deleteProperty(globalThis, "globalStore");
  process.env.PULUMI_NODEJS_ROOT_DIRECTORY = request.getInfo()?.getRootDirectory() ?? "";
  settings.resetOptions(
    ...([request.getProject(), request.getStack(), request.getParallel(), engine] as const),
    ...([request.getMonitorAddress(), request.getDryrun(), request.getOrganization()] as const),
  );
  const config = Object.fromEntries(request.getConfigMap().toObject());
  pulumi.runtime.setAllConfig(config, request.getConfigsecretkeysList());
  process.chdir(request.getPwd());
  const entry = pathToFileURL(join(request.getPwd(), request.getProgram()));
  const failed = (error: unknown) => errors.add(error);
  await pulumi.runtime.runInPulumiStack(() => import(entry.href)).catch(failed);
  await waitForRPCs().catch(failed);
  // Node reports a rejection that no code handles after the promises of this turn.
  await setImmediate();
  // Without an error it waits for what the engine deletes, as that calls the program's hooks.
  if (errors.size === 0) await signalAndWaitForShutdown().catch(failed);
  for (const error of errors) {
    const { message, stack } = error as Error;
    void pulumi.log.error(pulumi.RunError.isInstance(error) ? message : `Running program failed: ${stack}`);
  }
  await settings.disconnect();
  return { bail: errors.size > 0 };
}

export const port = await serveLanguage((request, engine) => {
  waiting += 1;
  const run = last
    .then(() => evaluate(request, engine))
    .finally(() => {
      waiting -= 1;
    });
  last = run.catch(() => {});
  return run;
});
