/** Addresses as the rule language writes them: alone, as a range in CIDR notation without host bits, or first..last. */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

export type AddressSet = (address: string) => boolean;

const bytes = (address: string): number[] => ipaddr.parse(address).toByteArray();

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, byte] of a.entries()) if (byte !== b[index]) return byte - (b[index] ?? 0);
  return 0;
}

/** One literal; a string is what is wrong with it, in the engine's words. */
export function addressLiteral(text: string): AddressSet | string {
  const [from = "", to] = text.split("..");
  const [base = "", bits] = from.split("/");
  if (isIP(base) === 0) return "invalid IP address syntax";
  const size = bytes(base).length;
  const inFamily =
    (test: (candidate: number[]) => boolean): AddressSet =>
    (address) => {
      const candidate = isIP(address) === 0 ? [] : bytes(address);
      return candidate.length === size && test(candidate);
    };
  if (to !== undefined) {
    if (bits !== undefined || isIP(to) !== isIP(base)) return "invalid IP address syntax";
    const [first, last] = [bytes(base), bytes(to)];
    if (compare(first, last) > 0) return "invalid range: start greater than end";
    return inFamily((candidate) => compare(first, candidate) <= 0 && compare(candidate, last) <= 0);
  }
  if (bits === undefined) return inFamily((candidate) => compare(bytes(base), candidate) === 0);
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > size * 8) return "network length out of bounds";
  const mask = bytes(base).map((_, index) => 0xff & (0xff00 >> Math.min(8, Math.max(0, Number(bits) - index * 8))));
  const network = bytes(base);
  if (network.some((byte, index) => (byte & ~mask[index]! & 0xff) !== 0)) return "host part of address was not zero";
  return inFamily((candidate) => candidate.every((byte, index) => (byte & mask[index]!) === network[index]));
}
