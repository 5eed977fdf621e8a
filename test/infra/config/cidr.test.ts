/** The ranges that the configuration accepts, and overlapping ranges after tidy. */
import { expect, test } from "vitest";
import { compare, rangeFault, tidy } from "../../../infra/config/cidr.ts";

test.each<[says: string | undefined, ...ranges: string[]]>([
  [
    undefined,
    "198.51.100.8",
    "198.51.100.8/32",
    "0.0.0.0/0",
    "2001:db8::1/128",
    "2001:db8::/32",
    "::ffff:198.51.100.8",
  ],
  // cidr-tools alone reads each of these as some address.
  ["", "git.example.net", "0x1.1.1.1", "1.1.1.1/33", "1.1.1.1/8/9", "::1/129", "fe80::1%eth0", " 198.51.100.8"],
  ["", "eth0%198.51.100.8", "/198.51.100.8"],
  [", in which host bits are set", "198.51.100.1/28", "2001:db8::1/32"],
])("the fault of a range is its text%s", (says, ...ranges) => {
  for (const range of ranges)
    expect(rangeFault(range)).toBe(says === undefined ? says : `is ${JSON.stringify(range)}${says}`);
});

test("tidy sorts and drops covered ranges, and does not merge neighbours", () => {
  const ranges = ["2001:db8::/32", "198.51.100.16/28", "198.51.100.0/28", "198.51.100.3", "198.51.100.0/28"];
  expect(tidy(ranges)).toEqual(["198.51.100.0/28", "198.51.100.16/28", "2001:db8::/32"]);
});

test("compare puts IPv4 first, then the lower address, then the wider range", () => {
  const sorted = ["10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "200.0.0.0/8", "::/0", "::/8", "2001:db8::/32"];
  expect([...sorted].reverse().sort(compare)).toEqual(sorted);
  for (const one of sorted) expect(compare(one, one)).toBe(0);
});
