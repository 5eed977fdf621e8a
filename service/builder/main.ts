/**
 * The builder: reads its settings, and works as long as markers are pending. Exits 78 (EX_CONFIG) on faulty settings.
 * systemd runs one builder per site, and ends its whole control group before it starts the next.
 */
import { readBuilder, SettingsFault } from "../settings.ts";
import { armoured } from "./git.ts";
import { makePlaces, placesOf } from "./places.ts";
import { removeLeftovers, serve } from "./serve.ts";
import { setbackOf } from "./setback.ts";

async function main(): Promise<void> {
  const builder = readBuilder();
  // Other accounts read what is published, whatever the unit's UMask= is.
  process.umask(0o022);
  const { settings } = builder;
  const places = placesOf(settings);
  makePlaces(places);
  removeLeftovers(places);
  await serve({ settings, places, git: armoured(builder) }, (entry) => {
    process.stdout.write(`${JSON.stringify(entry)}\n`);
  });
}

// journald closes its end of the pipe when it restarts: a lost line must not stop a build.
process.stdout.on("error", () => {});

main().catch((error: unknown) => {
  const { message } = error instanceof SettingsFault ? error : setbackOf(error);
  process.stderr.write(`pushgate-builder: ${message}\n`);
  process.exit(error instanceof SettingsFault ? 78 : 1);
});
