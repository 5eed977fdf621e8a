/**
 * Reads from the text of a rendered .socket which sources systemd admits, by systemd.resource-control(5): systemd
 * admits an address in IPAddressAllow=, else drops one in IPAddressDeny=, else admits it.
 */
import { containsCidr } from "cidr-tools";
import { anywhere, loopback } from "../../../../infra/networks.ts";

const words: Readonly<Record<string, readonly string[]>> = {
  any: [anywhere.v4, anywhere.v6],
  localhost: [loopback.v4range, loopback.v6],
};

/** Assignments add up; an empty one resets. */
function list(text: string, key: string): string[] {
  const values = text
    .split("\n")
    .flatMap((line) => (line.startsWith(`${key}=`) ? [line.slice(key.length + 1).trim()] : []));
  const counted = values.slice(values.lastIndexOf("") + 1);
  return counted.flatMap((value) => value.split(/\s+/)).flatMap((word) => words[word] ?? [word]);
}

export function socketAdmits(text: string, source: string): boolean {
  const matches = (key: string) => containsCidr([...list(text, key)], source);
  return matches("IPAddressAllow") || !matches("IPAddressDeny");
}
