/**
 * The fetcher: brings what the files in /wanted name into /fetched. Exits 65 (EX_DATAERR) where these are at fault, and 69
 * (EX_UNAVAILABLE) where a registry does not answer; its last line says why.
 */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { beginOfBuild } from "../builder/build/content.ts";
import { setbackOf } from "../builder/run/setback.ts";
import { exits } from "../builder/settings.ts";
import { isConfined } from "../confined.ts";
import { start } from "../settings.ts";
import { type Bring, Fault } from "./fault.ts";
import { modules } from "./modules.ts";
import { packages } from "./npm.ts";
import { readFetcher } from "./settings.ts";

/** By the folder of /wanted that has the files. */
const kinds: Readonly<Record<string, Bring>> = { modules, packages };

async function main(): Promise<void> {
  const { settings, build } = readFetcher();
  process.stdout.write(`${beginOfBuild}${build}\n`);
  try {
    if (!(await isConfined()))
      throw new Fault("unavailable", "the nft table that limits the fetcher's network is gone.");
    for (const [name, bring] of Object.entries(kinds)) {
      const [wanted, fetched] = ["/wanted", "/fetched"].map((top) => join(top, name)) as [string, string];
      if (!existsSync(wanted)) continue;
      mkdirSync(fetched);
      await bring(wanted, fetched, settings);
    }
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    process.stdout.write(`${error.message}\n`);
    // At once: other requests may still be open.
    process.exit(exits[error.kind]);
  }
}

start("pushgate-fetcher", main, setbackOf);
