/** The receiver: settings -> app -> the sockets systemd handed over. Exits 78 (EX_CONFIG) when it can't start. */
import { readReceiver, SettingsFault } from "../settings.ts";
import { createApp } from "./app.ts";
import { standardOutput as journal } from "./journal.ts";
import { createLimits } from "./limits.ts";
import { createReceiver } from "./server.ts";
import { drain, listen } from "./sockets.ts";
import { openSpool } from "./spool.ts";

async function main(): Promise<void> {
  const { settings, secrets, sockets } = readReceiver();
  const limits = createLimits(settings.limits);
  const spool = openSpool(
    settings.spool,
    settings.hooks.map(({ name }) => name),
  );
  const app = createApp({ settings, secrets, limits, spool, journal });
  const servers = await listen({ settings, sockets }, () => createReceiver(app, journal));
  process.once("SIGTERM", () => {
    void drain(servers).then(() => process.exit(0));
  });
}

// The journal's end of the pipe goes away when journald restarts: a lost line must not stop a delivery.
process.stdout.on("error", () => {});

main().catch((error: unknown) => {
  process.stderr.write(`pushgate-receiver: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(error instanceof SettingsFault ? 78 : 1);
});
