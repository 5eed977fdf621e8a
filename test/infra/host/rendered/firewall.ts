/**
 * Reads from the text of a rendered nft file what it does with a packet that comes from outside. It knows the rules that
 * pushgate writes, and throws on any other. The host suite tests a real kernel; this reader needs no root.
 */
import { containsCidr } from "cidr-tools";

type Packet = { readonly source: string; readonly port: number };

const form =
  /^(?<from>iif "lo" )?(iif != "lo" )?tcp dport (?<ports>\d+|\{[^}]*\}) (ip6? saddr @(?<set>\w+) )?((counter name|limit) .*?)?(?<verdict>accept|drop)?$/;

/** The verdict of table inet pushgate's input chain; its policy where no rule matches. */
export function firewallAdmits(text: string, { source, port }: Packet): boolean {
  const [, policy, rules = ""] = /chain input \{[^}]*? policy (accept|drop);\n(.*?)\n {2}\}/s.exec(text) ?? [];
  const numbers = (list: string) => list.match(/\d+/g)!.map(Number);
  const elements = (set: string) =>
    new RegExp(`set ${set} \\{[^}]*elements = \\{([^}]*)\\}`).exec(text)![1]!.match(/[^\s,]+/g) ?? [];
  for (const line of rules.split("\n").map((one) => one.trim())) {
    if (line === "" || line.startsWith("#")) continue;
    const { from, ports, set, verdict } = form.exec(line)?.groups ?? {};
    if (ports === undefined) throw new Error(`nft: this reader does not know the rule ${line}`);
    if (from !== undefined || !numbers(ports).includes(port)) continue;
    if (set !== undefined && !containsCidr(elements(set), source)) continue;
    if (verdict !== undefined) return verdict === "accept";
  }
  return policy === "accept";
}
