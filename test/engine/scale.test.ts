/** What 20 hosts cost a preview. The hosts are fake and take a second to answer: their own work is not this computer's. */
import { expect, test } from "vitest";
import { stackFile } from "../fixtures.ts";
import { patience } from "./engine.ts";
import { programStack, succeeded } from "./program-stack.ts";

const hosts = Array.from({ length: 20 }, (_, i) => ({
  ...stackFile["pushgate:hosts"][0]!,
  ...{ name: `web${i}`, ssh: `root@web${i}.example.org`, hostname: `hooks${i}.example.org` },
  ...{ address: `203.0.113.${i}`, address6: `2001:db8::${i + 1}` },
}));

// A busy computer may slow down one of the two that are compared.
test("a preview of 20 hosts takes at most three times as long as of one", { timeout: patience, retry: 2 }, async () => {
  const w = await programStack({ hosts, starts: true });
  try {
    w.ssh.slow(1);
    const all = succeeded(await w.stack.preview());
    w.stack.configure({ "pushgate:hosts": hosts.slice(0, 1) });
    const one = succeeded(await w.stack.preview());
    console.log(`20 hosts: ${all.seconds.toFixed(1)} s, one: ${one.seconds.toFixed(1)} s`);
    expect(all.seconds).toBeLessThan(3 * one.seconds);
  } finally {
    await w.close();
  }
});
