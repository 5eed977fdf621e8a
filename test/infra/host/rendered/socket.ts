/**
 * Reads from the text of a rendered .socket which sources systemd admits, by systemd.resource-control(5): systemd
 * admits an address in IPAddressAllow=, else drops one in IPAddressDeny=, else admits it.
 */
import { containsCidr } from "cidr-tools";
import { anywhere } from "../../../../infra/networks.ts";

export function socketAdmits(text: string, source: string): boolean {
  const lists = (key: string) => {
    const values = [...text.matchAll(new RegExp(`^${key}=(.+)$`, "gm"))].map(([, value]) => value!);
    const cidrs = values.flatMap((value) => (value === "any" ? [anywhere.v4, anywhere.v6] : [value]));
    return containsCidr(cidrs, source);
  };
  return lists("IPAddressAllow") || !lists("IPAddressDeny");
}
