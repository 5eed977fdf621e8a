/**
 * The lab's network namespace: a bridge that connects the hosts, and local addresses for every client and server that
 * they communicate with. No device leads out, so a packet with a git host's source address never leaves the lab.
 */
import { run } from "./process.ts";

/** Both ends of the link between the lab and its hosts. */
export const wire = {
  gateway: { v4: "203.0.113.1", v6: "2001:db8:113::1" },
  host: (slot: number) => ({ v4: `203.0.113.${slot}`, v6: `2001:db8:113::${slot}` }),
} as const;

/** Source addresses, all usable inside the lab as `localAddress` or `curl --interface`. */
export const actors = {
  /** Addresses in Cloudflare's published ranges. */
  edge: { v4: ["173.245.48.10", "104.16.0.10", "162.158.0.10"], v6: ["2400:cb00::10", "2606:4700::10"] },
  /** Another customer's Worker, which connects to origins from inside Cloudflare's ranges. */
  foreignWorker: { v4: [], v6: ["2a06:98c0:3600::103"] },
  github: { v4: ["192.30.252.10", "140.82.115.10", "9.234.98.170"], v6: ["2a0a:a440::10", "2606:50c0::10"] },
  gitlab: { v4: ["34.74.90.70"], v6: [] },
  bitbucket: { v4: ["104.192.140.245"], v6: ["2401:1d80:3000:100::10"] },
  /** Self-hosted git hosts with one address of each family. There are several, because test files run at once. */
  gitServers: {
    v4: ["217.197.84.140", "217.197.84.141", "217.197.84.142", "217.197.84.143"],
    v6: ["2a0a:4580:103f::140", "2a0a:4580:103f::141", "2a0a:4580:103f::142", "2a0a:4580:103f::143"],
  },
  /** Name servers in a private range, one for each git host. */
  resolvers: { v4: ["10.53.0.50", "10.53.0.51", "10.53.0.52", "10.53.0.53"], v6: [] },
  /** The cloud's metadata, which a host reaches and a build must not. Two, because two test files run at once. */
  metadata: { v4: ["169.254.169.254", "169.254.170.23"], v6: [] },
  /** Outside the ranges of Cloudflare and of every git host. */
  stranger: { v4: ["198.51.100.66", "192.0.2.66"], v6: ["2001:db8:bad::66"] },
  /** The operator's computer, from which `pulumi up` opens its SSH connections. */
  operator: { v4: ["198.51.100.7"], v6: ["2001:db8:7::7"] },
} as const satisfies Record<string, { v4: readonly string[]; v6: readonly string[] }>;

/** Sets up the network namespace of this process, which must be new. */
export async function setUpNetwork(): Promise<void> {
  const all = Object.values(actors);
  const link = [
    "link set lo up",
    "link add lab0 type bridge",
    // Without a fixed address the bridge takes the lowest address of its ports, which changes with every boot.
    "link set lab0 address 02:00:00:00:00:01",
    "link set lab0 up",
    `addr add ${wire.gateway.v4}/24 dev lab0`,
    `addr add ${wire.gateway.v6}/64 dev lab0 nodad`,
    ...all.flatMap(({ v4 }) => v4.map((address) => `addr add ${address}/32 dev lo`)),
    ...all.flatMap(({ v6 }) => v6.map((address) => `addr add ${address}/128 dev lo nodad`)),
    // A connection from a host to the internet fails at once instead of after a timeout.
    "route add unreachable default",
    "route add unreachable ::/0",
  ];
  await run("ip", ["-batch", "-"], { stdin: `${link.join("\n")}\n` });
  await run("sysctl", ["-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
}
