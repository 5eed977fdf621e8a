/**
 * Plain `pulumi preview` finds and prints manual changes on a host, and `up` repairs them in place, without a restart of
 * nginx's or the receiver's socket, and each layer although a later one is still wrong. `npm run soak -- --drift` makes all
 * changes of drift.ts. Changes at Cloudflare are in test/engine/edge-drift.test.ts.
 */
import { expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import { deployedWorld } from "../deployed.ts";
import { flushed, ofEachHost, repairs, widened } from "../drift.ts";

const deployed = await deployedWorld("drift");
const { world, host } = deployed;

test("preview reports manual changes of every layer, and up repairs all of them in place", async () => {
  const socket = units.socket("github");
  const untouched = () => host.read(`systemctl show -p ActiveEnterTimestampMonotonic ${socket} ${units.nginxSocket}`);
  const before = await untouched();
  const mutations = [...ofEachHost, widened(socket), flushed];
  await repairs(deployed, { mutations, breaks: true }, async () => [await world.deliver()]);
  expect(await untouched()).toBe(before);
  expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
});
