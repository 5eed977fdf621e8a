/** What a fetch brings, by the folder that has the files which name it. */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { FetchSettings } from "../builder/settings.ts";
import { modules } from "./modules.ts";
import { packages } from "./npm.ts";

/** Brings into `fetched` what the folders in `wanted` name. Throws Setback. */
export async function bringAll(wanted: string, fetched: string, settings: FetchSettings): Promise<void> {
  for (const [name, bring] of Object.entries({ modules, packages })) {
    if (!existsSync(join(wanted, name))) continue;
    mkdirSync(join(fetched, name));
    await bring(join(wanted, name), join(fetched, name), settings);
  }
}
