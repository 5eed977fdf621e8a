/**
 * Reads from the text of a rendered nft file what it does with a packet. It knows the part of nft's language that
 * pushgate writes, and throws on any other. The host suite tests a real kernel; this reader needs no root.
 */
import { isIPv4, isIPv6 } from "node:net";
import { containsCidr } from "cidr-tools";

type Packet = { readonly source: string; readonly port: number; readonly loopback?: boolean };

const block = (text: string, head: RegExp): string => {
  const start = head.exec(text);
  if (!start) return "";
  let depth = 0;
  for (let at = start.index + start[0].length - 1; at < text.length; at++) {
    if (text[at] === "{") depth++;
    if (text[at] === "}" && --depth === 0) return text.slice(start.index + start[0].length, at);
  }
  throw new Error("nft: a block is not closed");
};

/** Undefined where a rule does not match a packet: the next rule decides. */
function verdict(
  rule: string,
  packet: Packet,
  sets: (name: string) => readonly string[],
): "accept" | "drop" | undefined {
  const words = rule.match(/"[^"]*"|\{[^}]*\}|\S+/g) ?? [];
  const inSet = (name: string) => containsCidr([...sets(name.slice(1))], packet.source);
  while (words.length > 0) {
    const word = words.shift()!;
    const negated = words[words[0] === "dport" || words[0] === "saddr" ? 1 : 0] === "!=";
    const matches = (found: boolean) => found !== negated;
    const operand = () => {
      while (["dport", "saddr", "!="].includes(words[0] ?? "")) words.shift();
      return words.shift() ?? "";
    };
    if (word === "accept" || word === "drop") return word;
    if (word === "iif" && matches(Boolean(packet.loopback))) operand();
    else if (word === "tcp" && matches(operand().replace(/[{}]/g, "").split(",").map(Number).includes(packet.port)))
      continue;
    else if (word === "ip" && isIPv4(packet.source) && matches(inSet(operand()))) continue;
    else if (word === "ip6" && isIPv6(packet.source) && matches(inSet(operand()))) continue;
    else if (["iif", "tcp", "ip", "ip6"].includes(word)) return undefined;
    else if (word === "counter") words.splice(0, words[0] === "name" ? 2 : 0);
    // A limit only decides whether to log: the rule that logs has no verdict.
    else if (word === "limit" || word === "log") words.length = 0;
    else throw new Error(`nft: this reader does not know "${word}" in: ${rule}`);
  }
  return undefined;
}

/** The verdict of table inet pushgate's input chain; its policy where no rule matches. */
export function firewallAdmits(text: string, packet: Packet): boolean {
  const table = block(text, /table inet pushgate \{/);
  const sets = (name: string) =>
    block(block(table, new RegExp(`set ${name} \\{`)), /elements = \{/)
      .split(",")
      .map((cidr) => cidr.trim())
      .filter(Boolean);
  const lines = block(table, /chain input \{/)
    .split("\n")
    .map((line) => line.replace(/^\s*#.*/, "").trim())
    .filter(Boolean);
  const policy = /policy (accept|drop)/.exec(lines.shift() ?? "")?.[1];
  for (const line of lines) {
    const found = verdict(line, packet, sets);
    if (found) return found === "accept";
  }
  return policy === "accept";
}
