/**
 * The builder: reads its settings and works as long as anything is pending. Exits 78 (EX_CONFIG) on faulty settings.
 * systemd runs one builder per site, and ends its whole control group before it starts the next.
 */
import { readBuilder, SettingsFault } from "../settings.ts";
import { armoured } from "./git.ts";
import { standardOutput as journal } from "./journal.ts";
import { makePlaces, placesOf } from "./places.ts";
import { heal, serve } from "./serve.ts";
import { setbackOf } from "./setback.ts";

async function main(): Promise<void> {
  const builder = readBuilder();
  // What is published is read by others, whatever the unit says of new files.
  process.umask(0o022);
  const places = placesOf(builder.settings);
  makePlaces(places);
  heal(places);
  await serve(builder, { settings: builder.settings, places, git: armoured(builder) }, journal);
}

// The journal's end of the pipe goes away when journald restarts: a lost line must not stop a build.
process.stdout.on("error", () => {});

main().catch((error: unknown) => {
  const { message } = error instanceof SettingsFault ? error : setbackOf(error);
  process.stderr.write(`pushgate-builder: ${message}\n`);
  process.exit(error instanceof SettingsFault ? 78 : 1);
});
