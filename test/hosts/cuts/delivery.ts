/** The power is cut after each answer of the receiver: a delivery that was answered 202 is in the spool, and whole. */
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type Step, withoutStep } from "../../cuts/durable-steps.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { example } from "../../fixtures.ts";
import { bundled } from "../../service/bundles.ts";
import { startReceiver } from "../../service/receiver-process.ts";
import { CutDisk, type Cuts, type Terms } from "./disk.ts";

export async function cutsAfterDeliveries(terms: Terms, step?: Step): Promise<Cuts> {
  using disk = new CutDisk(terms);
  const bundle = join(disk.folder, "receiver.cjs");
  const spool = join(disk.folder, "spool");
  await bundled("receiver", bundle, (file, text) =>
    `service/${file}` === step?.file ? withoutStep(step, text) : text,
  );
  const receiver = await startReceiver(bundle, example, (folder) => {
    for (const { name } of example.hooks) mkdirSync(join(spool, name), { recursive: true });
    rmSync(folder, { recursive: true });
    symlinkSync(spool, folder);
  });
  disk.sync();
  const most = 5;
  for (let i = 0; i < most; i++) {
    const { status, body } = await receiver.deliver(delivery());
    if (status !== 202) throw new Error(`the receiver answered ${status}: ${body}`);
    disk.cut();
  }
  await receiver.stop();
  // The last state is looked at even where it equals the one before.
  return await disk.afterEach(spool, (cut) => {
    const names = readdirSync(join(spool, "site")).filter((name) => !name.startsWith("."));
    const broken = names.filter((name) => !readFileSync(join(spool, "site", name), "utf8").endsWith("}\n"));
    return [
      ...(names.length <= cut ? ["a delivery is lost"] : []),
      ...(broken.length > 0 ? ["a delivery is not whole"] : []),
    ];
  });
}
