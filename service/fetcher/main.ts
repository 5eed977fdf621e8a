/**
 * The fetcher: brings what the files in /wanted name into /fetched. Exits 65 (EX_DATAERR) where these are at fault, and 69
 * (EX_UNAVAILABLE) where a registry does not answer; its last line says why.
 */
import { beginOfBuild } from "../builder/build/content.ts";
import { setbackOf } from "../builder/run/setback.ts";
import { exits } from "../builder/settings.ts";
import { start } from "../settings.ts";
import { bringAll } from "./bring.ts";
import { Fault } from "./fault.ts";
import { readFetcher } from "./settings.ts";

async function main(): Promise<void> {
  const { settings, build } = readFetcher();
  process.stdout.write(`${beginOfBuild}${build}\n`);
  try {
    await bringAll("/wanted", "/fetched", settings);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    process.stdout.write(`${error.message}\n`);
    // At once: other requests may still be open.
    process.exit(exits[error.kind]);
  }
}

start("pushgate-fetcher", main, setbackOf);
