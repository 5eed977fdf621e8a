/** The receiver as systemd runs it: the bundle on inherited sockets, stopped by SIGTERM. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { activatedReceiver } from "../activated-receiver.ts";
import { both, replaced } from "../bundles.ts";
import { answer, dial, head } from "./harness.ts";

test("the receiver serves each socket, prints a journal line for each request, and goes on where the journal is gone", async () => {
  const { receiver, ports, send, spooled, journal } = await activatedReceiver({ sockets: 3 });
  for (const port of ports) expect((await send(delivery(), port)).status).toBe(202);
  expect(spooled()).toHaveLength(3);
  await expect.poll(() => journal().map(({ status }) => status)).toEqual([202, 202, 202]);
  // journald closes its end of the pipe when it restarts.
  receiver.child.stdout?.destroy();
  for (let i = 0; i < 3; i++) expect((await send()).status).toBe(202);
  expect(receiver.child.exitCode).toBe(null);
});

test("the receiver reports faults of its settings and exits with 78", async () => {
  const { receiver, exited } = await activatedReceiver({ known: { site: ["too-short-to-be-one"] } });
  expect(await exited).toEqual([78, null]);
  await expect.poll(() => receiver.err).toMatch(/^pushgate-receiver: 2 faults, not started:\n.*site, line 1 has .*\n/);
  expect(receiver.err + receiver.out).not.toContain("too-short-to-be-one");
});

test("SIGTERM ends the receiver with 0 after it answered the open request, and at once for a kept connection", async () => {
  const { receiver, port, spooled, exited } = await activatedReceiver();
  const { body, ...sent } = delivery();
  const [open, kept] = [await dial(port), await dial(port)];
  open.write(head({ body, ...sent }));
  open.write(body.subarray(0, 100));
  kept.write(head(delivery()));
  kept.write(delivery().body);
  expect((await answer(kept)).status).toBe(202);
  const began = performance.now();
  receiver.child.kill("SIGTERM");
  const connects = async () => Boolean((await dial(port)).destroy());
  await expect.poll(() => connects().catch(() => false)).toBe(false);
  const answered = answer(open);
  open.write(body.subarray(100));
  expect((await answered).status).toBe(202);
  expect(await exited).toEqual([0, null]);
  expect(performance.now() - began).toBeLessThan(4_000); // before keepAliveTimeout, 5 s
  expect(spooled()).toHaveLength(2);
});

const careless = replaced("receiver/spool.ts", "  tried(() => {", "  ((work) => work())(() => {");
const removing = both(careless, replaced("receiver/spool.ts", "entry.isFile() && ", ""));
// spool.test.ts has the folders that cannot be used.
test.each([
  ["a folder in place of a temporary file", "site/.x.tmp", removing],
  ["a file in place of a folder", "docs", careless],
])("without the care for %s the receiver of all hooks would not start", async (_, path, rewrite) => {
  const prepare = (spool: string) => {
    if (path === "docs") writeFileSync(join(spool, path), "");
    else mkdirSync(join(spool, path, "full"), { recursive: true });
  };
  const { receiver, exited } = await activatedReceiver({ rewrite, prepare });
  expect(await exited).toEqual([1, null]);
  await expect.poll(() => receiver.err).toMatch(/EISDIR|EPERM|EEXIST/);
});
