/** What the hosts' logs hold of a delivery, and what the hosts report of themselves, by one connection to each. */
import { runOnHost } from "../../apply/run-on-host.ts";
import { attempts, doubted, objectIn } from "../../trace/attempts.ts";
import { type Evidence, type HostState, isFull } from "../../trace/evidence.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { all, type Options, ofStack, targets } from "../command.ts";
import { isDeliveryId, linesIn, logsScript } from "../site/logs.ts";
import { type Declared, type Host, readStack } from "../stack.ts";
import { parseState, stateScript } from "./state.ts";

/** The ids of a hook's deliveries in nginx's logs, the newest of each host last. */
export async function loggedIds(hook: string, options: Options): Promise<string[]> {
  const { hosts } = await readStack(ofStack(options));
  const script = logsScript({ sources: ["nginx"], lines: 500, since: "1 hour ago", deliveries: [`"hook":"${hook}"`] });
  const texts = await all(targets(hosts, options).map((host) => runOnHost(host, script, 60)));
  const logged = texts.flatMap((text) => linesIn(text, "")).map((line) => objectIn(line.text));
  const ids = logged.filter((line) => line.hook === hook).map(({ delivery }) => String(delivery));
  return ids.filter(isDeliveryId);
}

/** Per delivery, the attempts in the logs of each host; for a host whose logs have no line, one attempt without a time. */
export async function onHosts(deliveries: readonly string[], options: Options): Promise<Map<string, Evidence[]>> {
  if (deliveries.length === 0) return new Map();
  const stack = await readStack(ofStack(options));
  const found = await all(targets(stack.hosts, options).map((host) => onHost(deliveries, stack, host)));
  return new Map(deliveries.map((delivery) => [delivery, found.flatMap((of) => of(delivery))]));
}

async function onHost(deliveries: readonly string[], stack: Declared, host: Host) {
  const logs = logsScript({
    // A delivery may have several attempts, and strangers can repeat an id.
    ...{ sources: ["receiver", "nginx"], lines: 1_000 * deliveries.length, since: "7 days ago", seconds: 3 },
    // The field itself: in a text that a stranger sent, both logs escape the quotes.
    deliveries: deliveries.map((delivery) => `"delivery":"${delivery}"`),
  });
  const text = await orUserError(runOnHost(host, `(\n${logs}\n)\n${stateScript(stack, host)}\n`, 60));
  if (text instanceof UserError) {
    const state = { ...parseState("", stack, host), differences: [], unreachable: text.message };
    return (): Evidence[] => [{ host: host.name, state: [state] }];
  }
  const state: HostState = parseState(text, stack, host);
  const lines = linesIn(text, host.name);
  /** A line of a delivery may be missing: the file system took none, or the journal is too long to be searched. */
  const full = state.logs !== undefined && (state.logs.readOnly || isFull(state.logs));
  const doubtful = { nginx: full, receiver: full || /^u$/m.test(text) };
  return (delivery: string): Evidence[] => {
    const own = lines.filter((line) => line.text.includes(delivery));
    return attempts(delivery, own).map((one) => ({ ...doubted(one, doubtful), host: host.name, state: [state] }));
  };
}

/** The attempts that have lines on any host, with the state of hosts that were not reached, else one without a line. */
export function joined(each: readonly Evidence[]): Evidence[] {
  const lined = each.filter(({ time }) => time !== undefined);
  const state = each.flatMap(({ state = [] }) => state);
  const unreached = state.filter(({ unreachable }) => unreachable !== undefined);
  if (lined.length > 0) return lined.map((one) => ({ ...one, state: [...(one.state ?? []), ...unreached] }));
  // Another host, one that was not reached, may have its lines.
  const none = (log: "nginx" | "receiver") => each.every((one) => one[log] === "none") && { [log]: "none" as const };
  return [{ ...none("nginx"), ...none("receiver"), state }];
}
