/** The metrics of the receiver's process, on the socket that systemd passes for them. */
import { connect } from "node:net";
import { expect, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { activatedReceiver } from "../activated-receiver.ts";
import { replaced } from "../bundles.ts";
import { askedAt } from "../unix-request.ts";

test("a request to a socket for deliveries is counted, and one to the socket for metrics has the counts", async () => {
  const { receiver, path, port, send, spooled, journal, exited } = await activatedReceiver({ metrics: true });
  for (const sent of [delivery(), delivery({ event: "ping" }), delivery({ signature: null })]) await send(sent);
  // What Node's parser rejects counts, too.
  await new Promise((resolve) => connect(port).end("hello\r\n\r\n").resume().once("close", resolve));
  for (const method of ["GET", "POST"]) expect((await send(delivery({ method, path: "/metrics" }))).status).toBe(404);
  await expect.poll(journal).toHaveLength(6);
  const { status, text } = await askedAt(path);
  expect(status).toBe(200);
  expect(text.split("\n").filter((line) => /^\w*_total.* [1-9]/.test(line))).toEqual([
    'pushgate_deliveries_accepted_total{hook="site"} 1',
    'pushgate_deliveries_ignored_total{hook="site"} 1',
    'pushgate_requests_rejected_total{hook="site",reason="signature"} 1',
    'pushgate_requests_rejected_total{reason="payload"} 1',
    'pushgate_requests_rejected_total{reason="path"} 2',
  ]);
  // A client that holds a connection for metrics does not keep the receiver.
  const held = connect(path).on("error", () => {});
  expect((await askedAt(path, delivery())).status).toBe(404);
  expect([spooled().length, journal().length]).toEqual([1, 6]);
  receiver.child.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
  held.destroy();
});

test("without its name the socket for metrics would admit a delivery, past the allowlist of the git host's socket", async () => {
  const rewrite = replaced("receiver/settings.ts", "names[i] === metricsName", "false");
  const { path, spooled } = await activatedReceiver({ metrics: true, rewrite });
  expect((await askedAt(path, delivery())).status).toBe(202);
  expect(spooled()).toHaveLength(1);
});
