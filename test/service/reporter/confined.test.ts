/** The look for the egress table. test/hosts/rebuild has the table itself: units.test.ts. */
import { expect, test, vi } from "vitest";
import { isConfined } from "../../../service/confined.ts";

test("an account that no egress table limits may send a datagram to the host itself", async () => {
  expect(await isConfined()).toBe(false);
  await vi.waitUntil(() => !process.getActiveResourcesInfo().some((name) => /udp/i.test(name)));
});
