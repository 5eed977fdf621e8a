/**
 * The fetcher: brings what the files in /wanted name into /fetched. Exits 65 (EX_DATAERR) where these are at fault, and 69
 * (EX_UNAVAILABLE) where a registry does not answer; its last line says why.
 */
import { beginOfBuild } from "../builder/build/content.ts";
import { Setback, setbackOf } from "../builder/run/setback.ts";
import { exits, readSettings } from "../builder/settings.ts";
import { environment, start } from "../settings.ts";
import { bringAll } from "./bring.ts";

async function main(): Promise<void> {
  const settings = readSettings(environment);
  process.stdout.write(`${beginOfBuild}${environment.INVOCATION_ID ?? ""}\n`);
  try {
    await bringAll("/wanted", "/fetched", settings);
  } catch (error) {
    if (!(error instanceof Setback)) throw error;
    process.stdout.write(`${error.message}\n`);
    // At once: other requests may still be open.
    process.exit(exits[error.result]);
  }
}

start("pushgate-fetcher", main, setbackOf);
