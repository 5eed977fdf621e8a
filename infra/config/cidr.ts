/** Ranges in CIDR notation. cidr-tools accepts any text as an address, so `rangeFault` checks each text before. */
import { isIPv4, isIPv6 } from "node:net";
import { containsCidr, parseCidr } from "cidr-tools";

/** IPv4 before IPv6, then by first address, a wider range before a narrower one that starts with it. */
export function compare(a: string, b: string): number {
  const [left, right] = [parseCidr(a), parseCidr(b)];
  return left.version - right.version || Number(left.start - right.start) || Number(right.end - left.end);
}

/** Sorted, and without ranges that a wider one covers: nft rejects sets with overlaps. Neighbours are not merged. */
export const tidy = (cidrs: readonly string[]): string[] =>
  [...cidrs]
    .sort(compare)
    .filter((cidr, i, sorted) => !sorted.slice(0, i).some((before) => containsCidr(before, cidr)));

/** The fault of a range, or undefined. Host bits must be zero, so that the text shows which addresses it admits. */
export function rangeFault(cidr: string): string | undefined {
  const [, address = "", bits] = /^([^/%]+)(?:\/(\d+))?$/.exec(cidr) ?? [];
  const width = isIPv4(address) ? 32 : isIPv6(address) ? 128 : -1;
  if (Number(bits ?? 0) > width) return `is ${JSON.stringify(cidr)}`;
  const first = parseCidr(cidr).start;
  return parseCidr(address).start === first ? undefined : `is "${cidr}", in which host bits are set`;
}
