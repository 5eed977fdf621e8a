/** How faults are counted and quoted, and which known key a misspelt one stands for. */
import * as v from "valibot";
import { expect, test } from "vitest";
import { checkShape, found, SettingsError } from "../../../infra/config/faults.ts";

const fault = (key: string, says = "is wrong. Correct it.") => ({ key, says });

test("one fault is one, and each line has its key with the program's prefix", () => {
  expect(new SettingsError([fault("zone")]).message).toBe(
    "1 fault in the stack configuration. Nothing was changed.\n  pushgate:zone is wrong. Correct it.",
  );
  expect(new SettingsError([fault("cloudflare:apiToken"), fault("zone", "is late. Wait.")]).message).toBe(
    "2 faults in the stack configuration. Nothing was changed.\n  cloudflare:apiToken is wrong. Correct it.\n  pushgate:zone is late. Wait.",
  );
});

test.each([
  ["", "is empty"],
  [[], "is empty"],
  [["a"], "is a list"],
  [{}, "is an object"],
  [null, "is null"],
  [7, "is 7"],
  [true, "is true"],
  ["text", 'is "text"'],
  ["https://user:password@example.org/a", 'is "…@example.org/a"'],
  ["a:b:c@d@e", 'is "…@e"'],
  ["a\nuser:password@example.org", 'is "…@example.org"'],
  ["a@b", 'is "a@b"'],
  ["x".repeat(80), `is "${"x".repeat(80)}"`],
  ["x".repeat(81), `is "${"x".repeat(80)}…"`],
])("%j is quoted as %s", (value, says) => expect(found(value)).toBe(says));

const shape = v.strictObject({
  host: v.optional(v.strictObject({ address: v.optional(v.string()), hostname: v.optional(v.string()) })),
  list: v.optional(v.array(v.strictObject({ originPort: v.optional(v.number()) }))),
  abc: v.optional(v.string()),
});
const unknown = (key: string, value: unknown, meant?: string) => {
  const advice = meant === undefined ? "Check its spelling, or remove it; see" : `Did you mean ${meant}? See`;
  expect(checkShape(shape, value).faults).toEqual([
    { key, says: `is not a key pushgate knows. ${advice} docs/configuration.md.` },
  ]);
};

test("a misspelt key is compared with the keys beside it: at most a third of the known one's letters may differ", () => {
  unknown("abd", { abd: 1 }, "abc");
  unknown("axx", { axx: 1 });
  unknown("ABC", { ABC: 1 }, "abc");
  unknown("host.adress", { host: { adress: "" } }, "address");
  unknown("host.originPort", { host: { originPort: 1 } });
  unknown("list[0].orginport", { list: [{ orginport: 1 }] }, "originPort");
  unknown("list[1].abc", { list: [{}, { abc: 1 }] });
  // Two letters from "hostname", four from "address".
  unknown("host.hostnam", { host: { hostnam: "" } }, "hostname");
});
