/**
 * Reads for the demo, from rendered texts alone, which sources firewall, nginx and sockets admit. It knows the lines that
 * pushgate writes. The tests of each layer and the host suite test the real ones.
 */
import { containsCidr } from "cidr-tools";
import { anywhere } from "../../../infra/networks.ts";

const ruleForm =
  /^(?<from>iif "lo" )?(iif != "lo" )?tcp dport (?<ports>\d+|\{[^}]*\}) (ip6? saddr @(?<set>\w+) )?((counter name|limit) .*?)?(?<verdict>accept|drop)?$/;

/** The verdict of table inet pushgate's input chain on a packet from outside; its policy where no rule matches. */
export function firewallAdmits(text: string, { source, port }: { source: string; port: number }): boolean {
  const [, policy, rules = ""] = /chain input \{[^}]*? policy (accept|drop);\n(.*?)\n {2}\}/s.exec(text) ?? [];
  const elements = (set: string) =>
    new RegExp(`set ${set} \\{[^}]*elements = \\{([^}]*)\\}`).exec(text)![1]!.match(/[^\s,]+/g) ?? [];
  for (const line of rules.split("\n").map((one) => one.trim())) {
    if (line === "" || line.startsWith("#")) continue;
    const { from, ports, set, verdict } = ruleForm.exec(line)?.groups ?? {};
    if (ports === undefined) throw new Error(`nft: this reader does not know the rule ${line}`);
    if (from !== undefined || !ports.match(/\d+/g)!.map(Number).includes(port)) continue;
    if (set !== undefined && !containsCidr(elements(set), source)) continue;
    if (verdict !== undefined) return verdict === "accept";
  }
  return policy === "accept";
}

/** `ownCertificate`: whether the peer shows a certificate of this zone's own CA. `client`: in CF-Connecting-IP. */
type Arrival = {
  readonly peer: string;
  readonly ownCertificate: boolean;
  readonly client: string;
  readonly path: string;
};

const directive = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`^\\s*${name} ([^;]+);`, "gm"))].map((match) => match[1]!);

/** In nginx's order: its own answer, or where it passes the request: the loopback port and the address it binds to. */
export function proxyPasses(text: string, arrival: Arrival): { status: number } | { port: number; bind: string } {
  if (directive(text, "ssl_verify_client")[0] === "on" && !arrival.ownCertificate) return { status: 400 };
  // nginx takes the address from the header only if it trusts the peer.
  const client = containsCidr(directive(text, "set_real_ip_from"), arrival.peer) ? arrival.client : arrival.peer;
  const [, location] = text.split(`location = ${arrival.path} {`);
  if (location === undefined) return { status: 404 };
  const port = Number(/:(\d+)$/.exec(directive(location, "proxy_pass")[0] ?? "")?.[1]);
  const transparent = directive(text, "proxy_bind")[0]?.includes("transparent") ?? false;
  return { port, bind: transparent ? client : "the proxy" };
}

/** As systemd.resource-control(5): an address in IPAddressAllow= is admitted, else one in IPAddressDeny= is not. */
export function socketAdmits(text: string, source: string): boolean {
  const lists = (key: string) => {
    const values = [...text.matchAll(new RegExp(`^${key}=(.+)$`, "gm"))].map(([, value]) => value!);
    return containsCidr(
      values.flatMap((value) => (value === "any" ? [anywhere.v4, anywhere.v6] : [value])),
      source,
    );
  };
  return lists("IPAddressAllow") || !lists("IPAddressDeny");
}
