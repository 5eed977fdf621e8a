/** Ranges in CIDR notation. cidr-tools takes any text for some address: it is only given what faultOf found no fault in. */
import { isIP } from "node:net";
import { containsCidr, parseCidr } from "cidr-tools";

/** IPv4 before IPv6, then numeric, a wider range before the narrower one that starts with it. */
export function compare(a: string, b: string): number {
  const [left, right] = [parseCidr(a), parseCidr(b)];
  return left.version - right.version || Number(left.start - right.start) || Number(right.end - left.end);
}

/**
 * Sorted, and without what a wider range already covers: sets with overlaps are refused by nft, and hide mistakes.
 * Neighbours are not merged: each range stays as its git host publishes it.
 */
export const tidy = (cidrs: readonly string[]): string[] =>
  [...cidrs]
    .sort(compare)
    .filter((cidr, i, sorted) => !sorted.slice(0, i).some((before) => containsCidr(before, cidr)));

/** What is wrong with a range, or undefined. Host bits must be zero, so that the text says what is admitted. */
export function faultOf(cidr: string): string | undefined {
  const [, address = "", bits] = /^([^/%]+)(?:\/(\d+))?$/.exec(cidr) ?? [];
  const width = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  if (Number(bits ?? 0) > width) return "is neither an address nor a range in CIDR notation";
  if (parseCidr(address).start !== parseCidr(cidr).start) return "has host bits set: write the range's first address";
  return undefined;
}
