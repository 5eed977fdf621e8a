/** Addresses as the rule language writes them: alone, or as a range in CIDR notation without host bits. */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

export type AddressSet = (address: string) => boolean;

/** One literal; a string is what is wrong with it, in the engine's words. */
export function addressLiteral(text: string): AddressSet | string {
  const [base = "", bits] = text.split("/");
  if (isIP(base) === 0) return "invalid IP address syntax";
  const network = ipaddr.parse(base);
  const longest = network.toByteArray().length * 8;
  if (bits !== undefined && (!/^\d{1,3}$/.test(bits) || Number(bits) > longest)) return "network length out of bounds";
  const length = Number(bits ?? longest);
  const first = (isIP(base) === 4 ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(`${base}/${length}`);
  if (first.toString() !== network.toString()) return "host part of address was not zero";
  return (address) => {
    if (isIP(address) === 0) return false;
    const candidate = ipaddr.parse(address);
    // An IPv4 address in an IPv6 one is of the family of IPv6.
    return candidate.kind() === network.kind() && candidate.match(network as ipaddr.IPv4, length);
  };
}
