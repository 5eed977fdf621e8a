/** Which state of a host may explain an outcome, with a fix for just that: decision 026. Pure. */
import { isIP } from "node:net";
import { units } from "../host/paths.ts";
import { type Cause, type Evidence, type HostState, isFull } from "./evidence.ts";
import type { Outcome, PathLayer } from "./outcomes.ts";

type Explanation = Omit<Cause, "outcome" | "host">;

/** `at`: its place on the path. `oneshot`: the start of its service places all of the layer in the kernel. */
type Layer = { name: string; at: PathLayer; service?: string; oneshot?: true; explains: readonly string[] };
/** What differences of a host layer may explain, the likeliest layer first. */
// biome-ignore format: a layer and what it explains are a row each
const layers: readonly Layer[] = [
  { name: "origin-certificate", at: "4 Cloudflare to origin", explains: ["origin certificate"] },
  { name: "firewall", at: "5 firewall", service: units.firewall, oneshot: true, explains: ["firewall", "not from Cloudflare"] },
  { name: "receiver", at: "7 systemd", service: units.receiver,
    explains: ["outside of the ranges", "unreachable socket", "closed connection", "receiver timeout", "no such hook", "not spooled", "a bug"] },
  { name: "routing", at: "7 systemd", service: units.routing, oneshot: true, explains: ["unreachable socket"] },
  { name: "proxy", at: "6 nginx", service: units.nginx,
    explains: ["firewall", "another program on the origin port", "origin certificate", "client certificate", "not from Cloudflare",
      "no hook", "large body", "too many requests", "nginx failed", "outside of the ranges", "unreachable socket"] },
];

/** The number of the delivery's address family, 4 or 6; 0 where the address is not known. */
function familyOf({ nginx, receiver }: Evidence): number {
  const source = typeof receiver === "object" ? receiver.source : undefined;
  return isIP((typeof nginx === "object" ? nginx.client : source) ?? "");
}

/** The differences of one layer that concern this delivery, as one cause: a stopped nginx differs in seven ways. */
function ofLayer({ name, at, service, oneshot }: Layer, outcome: Outcome, seen: Evidence, state: HostState) {
  const socket = state.sockets.find(({ hooks }) => hooks.includes(seen.hook ?? ""));
  const family = familyOf(seen);
  const others = [
    ...state.sockets.flatMap(({ unit }) => (socket && unit !== socket.unit ? [unit] : [])),
    ...(family === 0 ? [] : [family === 4 ? "IPv6" : "IPv4"]),
    ...(state.drops.length > 0 ? ["origin port"] : []), // the host's own request meets such a table, too
  ];
  const all = state.differences.filter(
    ({ layer, about, path }) => layer === name && !others.some((one) => one === about || path?.includes(one)),
  );
  const [first, ...rest] = all;
  if (first === undefined) return [];
  const more = rest.length === 0 ? "" : `; ${rest.length} more of ${name} differ`;
  const stopped = all.find(({ found = "" }) => /^enabled (inactive|failed)/.test(found))?.about;
  // systemd starts no socket while its service runs, and starts it with the service.
  const command = oneshot || stopped?.endsWith(".socket") ? `restart ${service}` : stopped && `start ${stopped}`;
  const fix =
    command === undefined || all.some(({ path }) => path) ? "npx pulumi up" : `${state.ssh} systemctl ${command}`;
  return [{ layer: outcome.layer === "8 receiver" ? outcome.layer : at, what: `${first.what}${more}`, fix }];
}

/** The guard's faults: the present one, and the one at the time of the delivery, which a log has up to 5 s earlier. */
function ofGuard({ time = "" }: Evidence, { findings }: HostState): Explanation[] {
  const then = findings.findLast((one) => Date.parse(one.time) <= Date.parse(time) + 5_000);
  const both = [...new Set([findings.at(-1), then])].filter((one) => one !== undefined);
  const faults = both.filter(({ fix }) => fix !== "");
  return faults.map(({ code, what, fix }) => ({
    layer: code === "firewall" ? "5 firewall" : "7 systemd",
    ...{ what: `the guard: ${what}`, fix },
  }));
}

function ofRoom(layer: PathLayer, whose: string, room: HostState["spool"], ssh: string): Explanation[] {
  if (room === undefined) return [];
  const kernel = `See why the kernel made it so: ${ssh} journalctl --dmesg --priority=err`;
  const free = `Free space; this lists the largest folders: ${ssh} 'du -xm / 2>/dev/null | sort -n | tail -n 20'`;
  const left = `${whose} has ${room.freeKiB} KiB and ${room.freeFiles} files left`;
  return [
    ...(room.readOnly ? [{ layer, what: `${whose} is read-only`, fix: kernel }] : []),
    ...(isFull(room) ? [{ layer, what: left, fix: free }] : []),
  ];
}

function explanations(outcome: Outcome, seen: Evidence, state: HostState): Explanation[] {
  const { name } = outcome;
  const { unreachable, spool, logs, drops, ssh } = state;
  const layer = outcome.layer as PathLayer;
  if (unreachable !== undefined) {
    const fix = "Start the host if it is off, else correct what ssh reports.";
    return name === "firewall" || name === "no route" ? [{ layer, what: `ssh, too: ${unreachable}`, fix }] : [];
  }
  const own = layers.filter(({ explains }) => explains.includes(name));
  // 521 is a closed port, 522 is silence.
  if (seen.answer?.status === 521) own.reverse();
  return [
    ...(name === "unreachable socket" ? ofGuard(seen, state) : []),
    ...(name === "not spooled" ? ofRoom(layer, "the spool's file system", spool, ssh) : []),
    ...(name === "nginx failed" ? ofRoom(layer, "the file system of nginx's logs", logs, ssh) : []),
    ...own.flatMap((one) => ofLayer(one, outcome, seen, state)),
    ...(name !== "firewall" ? [] : drops).map((rule) => ({
      layer,
      what: `a rule of another table may drop Cloudflare's connections: ${rule}`,
      fix: `Let the origin port pass there: ${ssh} nft list ruleset`,
    })),
  ];
}

/** What may explain an outcome on the hosts that were looked at, the likeliest first. */
export const causes = (outcome: Outcome, seen: Evidence): Cause[] =>
  (seen.state ?? []).flatMap((state) =>
    explanations(outcome, seen, state).map((one) => ({ outcome: outcome.name, host: state.host, ...one })),
  );
