/** The receiver: settings, the app, the sockets that systemd passes. It exits with 78 (EX_CONFIG) on wrong settings. */
import { openJournal } from "../journal.ts";
import { createMetrics } from "../metrics/metrics.ts";
import { start } from "../settings.ts";
import { createApp } from "./app.ts";
import { createLimiter } from "./limiter.ts";
import { drain, listen } from "./server.ts";
import { readReceiver } from "./settings.ts";
import { openSpool } from "./spool.ts";

async function main(): Promise<void> {
  const receiver = readReceiver();
  const { settings, secrets } = receiver;
  const metrics = createMetrics(settings);
  const journal = openJournal((lines) => process.stdout.write(lines), metrics.count);
  const hooks = settings.hooks.flatMap(({ name, previews }) => [name, ...(previews ? [previews.hook] : [])]);
  const spool = openSpool(settings.spool, hooks);
  const app = createApp({ settings, secrets, limiter: createLimiter(settings.limits), spool, journal });
  const servers = await listen(receiver.sockets, app, journal);
  await metrics.serve(receiver.metrics);
  process.once("SIGTERM", () => void drain(servers).then(() => process.exit(0)));
}

start("pushgate-receiver", main);
