/**
 * Which state of a host may explain an outcome, with a fix for just that. State is of the time of the trace, not of the
 * delivery: what is broken now may explain it, and what is in order now may have been broken then. So no state rules an
 * outcome out or brings one in, and a cause is never more than likely. Pure.
 */
import { containsCidr } from "cidr-tools";
import { units } from "../host/paths.ts";
import { isV4 } from "../networks.ts";
import type { Attempt } from "./attempts.ts";
import { type HostState, isFull } from "./host-state.ts";
import type { Outcome, PathLayer } from "./outcomes.ts";

export type Cause = {
  /** The name of the outcome that the cause may explain. */
  readonly outcome: string;
  /** The layer that broke. The outcome's layer can be another: where nginx is down, Cloudflare finds a closed port. */
  readonly layer: PathLayer;
  readonly host: string;
  readonly what: string;
  /** A command for the operator's shell, or what to do by hand. */
  readonly fix: string;
};

const up = "npx pulumi up";
type Found = readonly (Omit<Cause, "outcome" | "host"> | undefined)[];

/** Per outcome, the layers of infra/host whose differences may explain it, the likeliest first. */
const explainedBy: Readonly<Record<string, readonly string[]>> = {
  firewall: ["firewall", "proxy"],
  "another program on the origin port": ["proxy"],
  "origin certificate": ["origin-certificate", "proxy"],
  "client certificate": ["proxy"],
  "not from Cloudflare": ["firewall", "proxy"],
  "no hook": ["proxy"],
  "large body": ["proxy"],
  "too many requests": ["proxy"],
  "nginx failed": ["proxy"],
  "outside of the ranges": ["receiver", "proxy"],
  "unreachable socket": ["receiver", "routing", "proxy"],
  "closed connection": ["receiver"],
  "receiver timeout": ["receiver"],
  "no such hook": ["receiver"],
  "not spooled": ["receiver"],
  "a bug": ["receiver"],
};

/** Where on the path a layer of infra/host is. */
const pathLayerOf = (layer: string, outcome: Outcome): PathLayer => {
  if (layer === "origin-certificate") return "4 Cloudflare to origin";
  if (layer === "firewall") return "5 firewall";
  if (layer === "proxy") return "6 nginx";
  return outcome.layer === "8 receiver" ? outcome.layer : "7 systemd";
};

/** Milliseconds around a delivery in which the guard's lines are about it: it runs every minute. */
const [before, after] = [90_000, 5_000];

/** "closed: <why>; fix: <fix>; the guard opens …" of guard.sh. */
const guardFault = (text: string) =>
  /^(?:closed: )?(?<why>.+?); fix: (?<fix>.+?)(?:; the guard opens .*)?$/.exec(text)?.groups;

const clientOf = ({ nginx, receiver }: Attempt): string | undefined => {
  const client = typeof nginx === "object" ? nginx.client : typeof receiver === "object" ? receiver.source : undefined;
  return client && /^[0-9a-f.:]+$/i.test(client) ? client : undefined;
};

/** The socket of the delivery's hook, and whether its installed and its declared allowlist have the client address. */
export function admission(attempt: Attempt, { sockets }: HostState) {
  const client = clientOf(attempt);
  const socket = sockets.find(({ hooks }) => attempt.hook !== undefined && hooks.includes(attempt.hook));
  if (client === undefined || socket === undefined) return undefined;
  const within = (cidrs: readonly string[]) => {
    try {
      return cidrs.length > 0 && containsCidr(cidrs as string[], client);
    } catch {
      return false;
    }
  };
  const { unit, installed, declared } = socket;
  return { client, unit, installed: within(installed), declared: within(declared) };
}

/**
 * A layer's differences that concern this delivery: of its address family and its socket, as far as they are known. The
 * host's own request to nginx meets a table that drops, too.
 */
function concerning(layer: string, attempt: Attempt, { differences, sockets, drops }: HostState) {
  const client = clientOf(attempt);
  const others = sockets.filter(({ hooks }) => attempt.hook && !hooks.includes(attempt.hook)).map(({ unit }) => unit);
  const other = client === undefined ? undefined : isV4(client) ? "IPv6" : "IPv4";
  return differences
    .filter((one) => one.layer === layer)
    .filter(({ text }) => drops.length === 0 || !text.startsWith("answer of the origin port"))
    .filter(
      ({ text }) =>
        !others.some((unit) => text.includes(unit)) && !(layer === "routing" && other && text.includes(other)),
    );
}

/** A unit that is enabled and was stopped. */
const stopped =
  /^(?<unit>[\w.@-]+) is: declared is "enabled active\b.*", the host reports "enabled (?:inactive|failed)/;
/** Layers of one oneshot unit, whose start places all of the layer in the kernel. */
const oneshots: Readonly<Record<string, string>> = { firewall: units.firewall, routing: units.routing };

/** What repairs a layer: one unit's start, if its files are as declared, else an `up`. */
function fixOf(layer: string, all: HostState["differences"], { ssh }: HostState): string {
  const unit = all.flatMap(({ text }) => stopped.exec(text)?.groups?.unit ?? [])[0];
  if (all.some(({ file }) => file)) return up;
  if (oneshots[layer] !== undefined) return `${ssh} systemctl restart ${oneshots[layer]}`;
  if (unit === undefined) return up;
  // systemd starts no socket while its service runs, and starts it with the service.
  const service = unit === units.nginxSocket ? units.nginx : units.receiver;
  return `${ssh} systemctl ${unit.endsWith(".socket") ? `restart ${service}` : `start ${unit}`}`;
}

/** The differences of one layer as one cause: a stopped nginx differs in seven ways. */
function ofLayer(layer: string, outcome: Outcome, attempt: Attempt, state: HostState): Found {
  const all = concerning(layer, attempt, state);
  const [first, ...rest] = all;
  if (first === undefined) return [];
  const more = rest.length === 0 ? "" : `; ${rest.length} more of ${layer} differ`;
  return [{ layer: pathLayerOf(layer, outcome), what: `${first.text}${more}`, fix: fixOf(layer, all, state) }];
}

function ofGuard(outcome: Outcome, { time }: Attempt, { guard, guardLines }: HostState): Found {
  if (outcome.name !== "unreachable socket") return [];
  // While a fault lasts the guard reports it each minute, so the last line before the delivery counts.
  const late = (at: string) => Date.parse(at) - Date.parse(time ?? "");
  const then = guardLines.filter(({ time: at }) => late(at) <= after).at(-1);
  const texts = new Set([guard, ...(then && late(then.time) >= -before ? [then.text] : [])]);
  return [...texts].map((text) => {
    const { why, fix } = guardFault(text) ?? {};
    return why && fix ? { layer: "7 systemd", what: `the guard: ${why}`, fix } : undefined;
  });
}

function ofAllowlist(outcome: Outcome, attempt: Attempt, state: HostState): Found {
  const { client, unit, installed, declared } = admission(attempt, state) ?? {};
  if (client === undefined || !["unreachable socket", "outside of the ranges"].includes(outcome.name)) return [];
  const layer = "7 systemd";
  if (declared && !installed)
    return [{ layer, what: `${unit} does not admit ${client}, which this release's source ranges hold`, fix: up }];
  if (installed && outcome.name === "outside of the ranges")
    return [{ layer, what: `${unit} admits ${client}, which nginx's source ranges did not hold`, fix: up }];
  return [];
}

function ofTables(outcome: Outcome, { drops, ssh }: HostState): Found {
  if (outcome.name !== "firewall") return [];
  return drops.map((rule) => ({
    layer: "5 firewall",
    what: `a rule of another table may drop Cloudflare's connections: ${rule}`,
    fix: `Let the origin port pass there: ${ssh} nft list ruleset`,
  }));
}

function ofDisk(outcome: Outcome, { spool, logs, ssh }: HostState): Found {
  const rooms: Readonly<Record<string, readonly [room: HostState["spool"], whose: string]>> = {
    "not spooled": [spool, "the spool's file system"],
    "nginx failed": [logs, "the file system of nginx's logs"],
  };
  const [room, whose] = rooms[outcome.name] ?? [];
  if (room === undefined) return [];
  const { freeKiB, freeFiles, readOnly } = room;
  const layer = outcome.layer as PathLayer;
  return [
    readOnly
      ? {
          layer,
          what: `${whose} is read-only`,
          fix: `See why the kernel made it so: ${ssh} journalctl --dmesg --priority=err`,
        }
      : undefined,
    isFull(room)
      ? {
          layer,
          what: `${whose} has ${freeKiB} KiB and ${freeFiles} files left`,
          fix: `Free space; this lists the largest folders: ${ssh} 'du -xm / 2>/dev/null | sort -n | tail -n 20'`,
        }
      : undefined,
  ];
}

function found(outcome: Outcome, attempt: Attempt, state: HostState): Found {
  if (state.unreachable !== undefined)
    return outcome.name === "firewall" || outcome.name === "no route"
      ? [
          {
            layer: outcome.layer as PathLayer,
            what: `ssh, too: ${state.unreachable}`,
            fix: "Start the host if it is off, else correct what ssh reports.",
          },
        ]
      : [];
  const layers = explainedBy[outcome.name] ?? [];
  // 521 is a closed port, 522 is silence.
  const closed = attempt.answer?.status === 521;
  return [
    ...ofGuard(outcome, attempt, state),
    ...ofAllowlist(outcome, attempt, state),
    ...ofDisk(outcome, state),
    ...(closed ? layers.toReversed() : layers).flatMap((layer) => ofLayer(layer, outcome, attempt, state)),
    ...ofTables(outcome, state),
  ];
}

/** What may explain an outcome on the hosts that were looked at, the likeliest first. */
export const causes = (outcome: Outcome, attempt: Attempt): Cause[] =>
  (attempt.state ?? []).flatMap((state) =>
    found(outcome, attempt, state).flatMap((one) =>
      one === undefined ? [] : [{ outcome: outcome.name, host: state.host, ...one }],
    ),
  );
