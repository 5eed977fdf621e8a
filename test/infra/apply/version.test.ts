/** What a stamp is, and which versions are on a host. */
import { expect, test } from "vitest";
import { readStamp, versionsOf } from "../../../infra/apply/version.ts";

const end = "0123456789ab";

test.each([
  [`0.1.0-${end}`, { isTombstone: false, version: "0.1.0" }],
  [`absent-10.20.30-${end}`, { isTombstone: true, version: "10.20.30" }],
  [`x0.1.0-${end}`, undefined],
  [`0.1.0-${end}c`, undefined],
  [`0.1-${end}`, undefined],
  [`0.1.0-${end.toUpperCase()}`, undefined],
  [undefined, undefined],
])("the stamp %s", (stamp, read) => {
  expect(readStamp(stamp)).toEqual(read);
});

test("each version comes once, the earliest first, by its numbers", () => {
  const stamps = ["0.10.0", "0.9.0", "0.10.0", "0.9.1"].map((version) => `${version}-${end}`);
  expect(versionsOf([...stamps, undefined, "none"])).toEqual(["0.9.0", "0.9.1", "0.10.0"]);
});
