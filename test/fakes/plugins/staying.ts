/**
 * The fake plugins in one process that stays between the engine's runs, each on a port of its own. The engine connects to
 * them by PULUMI_DEBUG_LANGUAGES and PULUMI_DEBUG_PROVIDERS, and so starts none. Over Node's channel this process sends
 * its ports, takes the environment of each run, as the engine would hand it down, and answers whether a former program
 * still runs.
 */
import { port as cloudflare } from "./cloudflare.ts";
import { port as command } from "./command.ts";
import { isBusy, port as nodejs } from "./staying-language-host.ts";

export type Ports = { readonly nodejs: number; readonly command: number; readonly cloudflare: number };

process.on("message", (env: Record<string, string>) => {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  process.send!(isBusy());
});
// The test that started this process may have been killed.
process.on("disconnect", () => process.exit());
process.send!({ nodejs, command, cloudflare } satisfies Ports);
