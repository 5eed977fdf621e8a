/** Ranges in CIDR notation: parsed by ipaddr.js, compared as numbers. Nothing here knows a particular address. */
import ipaddr from "ipaddr.js";

type Range = { readonly family: 4 | 6; readonly first: bigint; readonly last: bigint };

const toNumber = (bytes: readonly number[]): bigint => bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);

/** Throws on anything but an address or a CIDR; an address alone is a range of one. */
export function parse(cidr: string): Range {
  const [address, bits] = cidr.includes("/") ? ipaddr.parseCIDR(cidr) : [ipaddr.parse(cidr), undefined];
  const width = address.kind() === "ipv4" ? 32 : 128;
  const size = 1n << BigInt(width - (bits ?? width));
  const number = toNumber(address.toByteArray());
  const first = number - (number % size);
  return { family: width === 32 ? 4 : 6, first, last: first + size - 1n };
}

export const overlap = (a: Range, b: Range): boolean => a.family === b.family && a.first <= b.last && b.first <= a.last;

export const contains = (outer: Range, inner: Range): boolean =>
  outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last;

/** IPv4 before IPv6, then numeric, a wider range before the narrower one that starts with it. */
export function compare(a: string, b: string): number {
  const [left, right] = [parse(a), parse(b)];
  if (left.family !== right.family) return left.family - right.family;
  if (left.first !== right.first) return left.first < right.first ? -1 : 1;
  return left.last === right.last ? 0 : left.last > right.last ? -1 : 1;
}

/** Sorted, and without what a wider range already covers: sets with overlaps are refused by nft, and hide mistakes. */
export function tidy(cidrs: readonly string[]): string[] {
  const kept: string[] = [];
  for (const cidr of [...cidrs].sort(compare)) {
    if (!kept.some((wider) => contains(parse(wider), parse(cidr)))) kept.push(cidr);
  }
  return kept;
}

/** What is wrong with a range, or undefined. Host bits must be zero, so that the text says what is admitted. */
export function faultOf(cidr: string): string | undefined {
  let range: Range;
  try {
    range = parse(cidr);
  } catch {
    return "is neither an address nor a range in CIDR notation";
  }
  const [text = "", bits] = cidr.split("/");
  if (bits === undefined) return undefined;
  if (toNumber(ipaddr.parse(text).toByteArray()) !== range.first)
    return "has host bits set: write the range's first address";
  return undefined;
}
