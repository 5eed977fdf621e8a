/**
 * What the hosts' logs hold of a delivery, what the builder did with it, and what the hosts report of themselves, by one
 * connection to each. A host that cannot be reached is a source that was not looked at.
 */
import { type Attempt, attempts, doubted } from "../../trace/attempts.ts";
import { mayLack } from "../../trace/host-state.ts";
import { all, type Options, ofStack, targets } from "../command.ts";
import { short } from "../format.ts";
import { runOnHost } from "../run-on-host.ts";
import { parseReport, type Report, reportScript } from "../site/host-report.ts";
import { isDeliveryId, logsScript, objectIn, reader } from "../site/logs.ts";
import { readStack, UserError } from "../stack.ts";
import { parseState, stateScript, unreachableState } from "./state.ts";

/** `notLooked`: why Cloudflare's events were not read. */
export type Traced = Attempt & { readonly host?: string; readonly published?: string; readonly notLooked?: string };

/** What the builder did with what the receiver accepted; undefined where the hook has no site or no build has ended. */
function publishedText({ time, hook }: Attempt, report: Report | undefined): string | undefined {
  const { deployed, last } = report?.hooks.find(({ name }) => name === hook)?.status ?? {};
  if (last === undefined || time === undefined) return undefined;
  if (deployed && deployed.at >= time)
    return `published: commit ${short(deployed.commit)} at ${deployed.at}, after this delivery`;
  return `not published: the last build ended at ${last.at}: ${last.result}, ${last.reason}`;
}

/** The ids of a hook's deliveries in nginx's log of a host, the newest last. */
export async function loggedIds(hook: string, options: Options): Promise<string[]> {
  const { hosts } = await readStack(ofStack(options));
  const wanted = { lines: 500, since: "1 hour ago", deliveries: [`"hook":"${hook}"`], follow: false };
  const found = await all(
    targets(hosts, options).map(async (host) => {
      const read = reader(host.name);
      const text = await runOnHost(host, logsScript({ sources: ["nginx"], ...wanted }), 60);
      return text.split("\n").flatMap((line) => idIn(read(line)?.text ?? "", hook) ?? []);
    }),
  );
  return found.flat();
}

function idIn(text: string, hook: string): string | undefined {
  const line = objectIn(text);
  const { delivery } = line;
  return line.hook === hook && typeof delivery === "string" && isDeliveryId(delivery) ? delivery : undefined;
}

/** Lines of each log for each delivery: some have several attempts, and strangers can repeat an id. */
const linesEach = 1_000;

/** Per delivery, the attempts in the logs of each host; for a host whose logs have no line, one attempt without a time. */
export async function onHosts(
  deliveries: readonly string[],
  options: Options,
): Promise<ReadonlyMap<string, readonly Traced[]>> {
  if (deliveries.length === 0) return new Map();
  const stack = await readStack(ofStack(options));
  const { hosts, hooks } = stack;
  const wanted = {
    sources: ["receiver", "nginx"],
    lines: linesEach * deliveries.length,
    since: "7 days ago",
    // The field itself: in a text that a stranger sent, both logs escape the quotes.
    deliveries: deliveries.map((delivery) => `"delivery":"${delivery}"`),
    follow: false,
    around: 3,
  } as const;
  const built = hooks.map(({ name, site }) => ({ name, built: site !== undefined }));
  const found = await all(
    targets(hosts, options).map(async (host): Promise<(delivery: string) => Traced[]> => {
      const scripts = [`(\n${logsScript(wanted)}\n)`, stateScript(stack, host), reportScript(built)];
      const text = await runOnHost(host, scripts.join("\n"), 60).catch((error: unknown) => {
        if (error instanceof UserError) return error;
        throw error;
      });
      if (text instanceof UserError) {
        const away = [{ host: host.name, state: [unreachableState(host, text.message)] }];
        return () => away;
      }
      const report = reportIn(host.name, text, built);
      const state = [parseState(text, stack, host, report?.guard ?? "")];
      const read = reader(host.name);
      const lines = text.split("\n").flatMap((line) => read(line) ?? []);
      const full = mayLack(state[0]!);
      const doubtful = { nginx: full, receiver: full || /^u$/m.test(text) };
      return (delivery) =>
        attempts(
          delivery,
          lines.filter((line) => line.text.includes(delivery)),
        ).map((found) => {
          const one = doubted(found, doubtful);
          const published = publishedText(one, report);
          return { ...one, host: host.name, state, ...(published !== undefined && { published }) };
        });
    }),
  );
  return new Map(deliveries.map((delivery) => [delivery, found.flatMap((of) => of(delivery))]));
}

/** undefined where a status.json is not the builder's: the logs are of more use than what it publishes. */
function reportIn(host: string, text: string, hooks: Parameters<typeof parseReport>[2]): Report | undefined {
  try {
    return parseReport(host, text, hooks);
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

/**
 * The attempts of one delivery to any host: those that have lines, with the state of hosts that were not reached, else
 * one without a line.
 */
export function joined(each: readonly Traced[]): readonly Traced[] {
  const lined = each.filter(({ time }) => time !== undefined);
  const state = each.flatMap(({ state = [] }) => state);
  const unreached = state.filter(({ unreachable }) => unreachable !== undefined);
  if (lined.length > 0) return lined.map((one) => ({ ...one, state: [...(one.state ?? []), ...unreached] }));
  // Another host, one that was not reached, may have its lines.
  const none = (log: "nginx" | "receiver") => each.every((one) => one[log] === "none") && { [log]: "none" as const };
  return [{ ...none("nginx"), ...none("receiver"), state }];
}
