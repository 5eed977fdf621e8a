/** The ranges that the configuration accepts, and overlapping ranges after tidy. */
import { expect, test } from "vitest";
import { rangeFault, tidy } from "../../../infra/config/cidr.ts";

test.each(["198.51.100.8", "198.51.100.0/28", "0.0.0.0/0", "2001:db8::", "2001:db8::/32", "::ffff:198.51.100.8"])(
  "%s is a range",
  (range) => {
    expect(rangeFault(range)).toBeUndefined();
  },
);

// cidr-tools alone reads each of these as some address.
test.each([
  "",
  "git.example.net",
  "198.51.100",
  "198.51.100.256",
  "0x1.1.1.1",
  "1.1.1.1/33",
  "1.1.1.1/8/9",
  "::g",
  "::1/129",
])("%j is no range", (range) => {
  expect(rangeFault(range)).toBe(`is ${JSON.stringify(range)}`);
});

test.each(["198.51.100.1/28", "2001:db8::1/32"])("%s has host bits", (range) => {
  expect(rangeFault(range)).toBe(`is "${range}", in which host bits are set`);
});

test("tidy sorts and drops covered ranges, and does not merge neighbours", () => {
  const ranges = ["2001:db8::/32", "198.51.100.16/28", "198.51.100.0/28", "198.51.100.3", "198.51.100.0/28"];
  expect(tidy(ranges)).toEqual(["198.51.100.0/28", "198.51.100.16/28", "2001:db8::/32"]);
});
