/** A journal entry is one line of printable text with a bounded length, also where a sender chose its values. */
import { expect, test } from "vitest";
import { line } from "../../../service/receiver/answer.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { head, receiver } from "./harness.ts";

const entry = { delivery: "id", hook: "site", source: "192.0.2.1", status: 404, reason: "", ms: 1.5 };

test("a journal line holds its fields in a fixed order", () => {
  expect(line({ ...entry, reason: "no hook" })).toBe(
    '{"delivery":"id","hook":"site","source":"192.0.2.1","status":404,"reason":"no hook","ms":1.5}',
  );
});

test.each([
  ["line ends", "a\r\nb"],
  ["NUL and escapes", "a\u0000\u001b[31mb\u007f"],
  ["C1 controls", "a\u0085\u009bb"],
  ["direction overrides", "a\u202e\u2066b\u2069"],
  ["separators of lines", "a\u2028b\u2029"],
  ["zero width", "a\u200b\ufeffb"],
  ["half of a pair", "a\ud800b"],
])("a journal line does not contain %s", (_, reason) => {
  const { reason: printed } = JSON.parse(line({ ...entry, reason }));
  expect(printed.replace("[31m", "")).toBe("ab");
});

test("a journal line is shorter than 350 characters where a path has 10,000", () => {
  expect(line({ ...entry, reason: "x".repeat(10_000) }).length).toBeLessThan(350);
});

test("the journal does not contain a path's query, which may hold a token", async () => {
  const running = await receiver();
  await running.send(delivery({ path: "/webhook/site?token=hidden" }));
  expect(running.journal[0]?.reason).toBe("no hook at /webhook/site");
  await running.stop();
});

test("a header with escape sequences stays one line of text in the journal", async () => {
  const running = await receiver();
  const sent = delivery({ headers: { "content-type": 'text/\u001b]0;owned\u0007 {"a":1}' } });
  await running.raw(head(sent), sent.body);
  await running.send(delivery({ event: 'x","status":202,"y":"' }));
  for (const each of running.journal) expect(line(each)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(running.journal.at(-1)).toMatchObject({ status: 200, reason: expect.stringContaining('x","status":202') });
  await running.stop();
});
