/** The logs of receiver, builder, nginx and guard, of every host, in the order of time. */
import { Argument, Option } from "commander";
import { printable } from "../../../service/printable.ts";
import { followOnHost, runOnHost, type Target } from "../../apply/run-on-host.ts";
import { scriptBeside, variables } from "../../apply/shell.ts";
import { nginxLogs, oneOf, units } from "../../host/paths.ts";
import { objectIn } from "../../trace/attempts.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, ended, type Options, ofStack, targets, valued } from "../command.ts";
import { readStack } from "../stack.ts";

/** Units whose journal is a source; nginx writes files. */
const journals = {
  receiver: [units.receiver, units.socket("*")],
  builder: [units.build("*"), units.generator("*", "*"), units.agent("*"), units.report("*"), units.mail("*", "*")],
  guard: [units.guard, units.firewall, units.routing, units.egress],
} as const;
const ofUnits = Object.entries(journals).map(([source, names]) => [source, oneOf(names)] as const);
const sources = ["receiver", "builder", "nginx", "guard"] as const;
type Source = (typeof sources)[number];

/** `time`: ISO 8601, UTC. */
type Line = Readonly<Record<"time" | "host" | "source" | "text", string>>;

type Wanted = {
  readonly sources: readonly Source[];
  readonly lines: number;
  readonly since: string;
  readonly deliveries: readonly string[]; // texts of which each line holds one; none: every line
  readonly follow?: boolean;
  readonly seconds?: number; // of a search of the journal, near the lines of nginx if there are any; 0: all, without limit
};

export function logsScript({ sources, deliveries, follow = false, seconds = 0, ...values }: Wanted): string {
  const units = sources.flatMap((source) => (source === "nginx" ? [] : [journals[source].join(",")]));
  const files = sources.includes("nginx") ? [nginxLogs.access, nginxLogs.error] : [];
  const how = { deliveries: deliveries.join("\n"), seconds, follow: follow ? "yes" : "no" };
  return `${variables({ journals: units, files, ...values, ...how })}\n${scriptBeside(import.meta.url, "logs.sh")}`;
}

/** Reads the lines of one host. They hold what strangers sent, so the texts lose their control characters. */
export function reader(host: string): (line: string) => Line | undefined {
  let offset = "Z";
  return (line) => {
    const [kind, rest] = [line[0], line.slice(2)];
    if (kind === "z") offset = /^[+-]\d{4}$/.test(rest) ? `${rest.slice(0, 3)}:${rest.slice(3)}` : "Z";
    if (kind === "j") return ofJournal(host, rest);
    if (kind === "n") return ofNginx(host, rest, offset);
    return undefined;
  };
}

export function linesIn(answer: string, host: string): Line[] {
  const read = reader(host);
  return answer.split("\n").flatMap((line) => read(line) ?? []);
}

export const timeOf = (value: string | number): string => {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "unknown time" : date.toISOString();
};

function ofJournal(host: string, text: string): Line {
  const { MESSAGE: message, UNIT, _SYSTEMD_UNIT, __REALTIME_TIMESTAMP: micros } = objectIn(text);
  const unit = String(UNIT ?? _SYSTEMD_UNIT ?? "");
  const [source = "guard"] = ofUnits.find(([, pattern]) => pattern.test(unit)) ?? [];
  // journald hands a text that is not UTF-8 over as a list of bytes.
  const said = Array.isArray(message) ? Buffer.from(message as number[]).toString("utf8") : String(message ?? "");
  return { time: timeOf(Number(micros) / 1000), host, source, text: printable(said) };
}

function ofNginx(host: string, text: string, offset: string): Line {
  const { time } = objectIn(text);
  const [, day, clock] = /^(\d{4}\/\d\d\/\d\d) (\d\d:\d\d:\d\d) /.exec(text) ?? [];
  const at = typeof time === "string" ? time : `${day?.replaceAll("/", "-")}T${clock}${offset}`;
  return { time: timeOf(at), host, source: "nginx", text: printable(text) };
}

type LogOptions = Options & { lines: number; since: string; delivery?: string; follow?: boolean };

const idShape = /^[\w.:-]{1,128}$/;
export const isDeliveryId = (text: string): boolean => idShape.test(text);
export const deliveryId = valued(idShape, "Use the id that the git host shows.", String);
const count = valued(/^[1-9]\d{0,5}$/, "Use a number from 1 to 999999.", Number);
/** Debian 12's systemd reads neither `trace`'s 3d nor the times that pushgate prints. */
const readable = (time: string): string =>
  time.replace(/^\d+[dhm]$/, "$& ago").replace(/^([\d-]+)T([\d:.]+)(Z|\+00:00)$/, "$1 $2 UTC");
const times = 'Use a time such as 3d, "2 hours ago", yesterday or 2026-11-28T18:51:14Z.';
const time = valued(/^[\w:. +-]{1,40}$/, times, readable);

/** Until Ctrl-C. A fault of one host is printed at once, as the others have no end. */
export async function followAll(on: readonly Target[], follow: (host: Target) => Promise<void>, print = console.error) {
  process.stdout.once("error", () => process.exit());
  const followed = on.map(async (host) => {
    const ended = await orUserError(follow(host));
    if (!(ended instanceof UserError)) return;
    print(`pushgate: ${ended.message}`);
    process.exitCode = 1;
  });
  await Promise.all(followed);
}

async function follow(host: Target, wanted: Wanted, show: (line: Line) => void): Promise<void> {
  const read = reader(host.name);
  for await (const text of followOnHost(host, logsScript(wanted))) {
    const line = read(text);
    if (line && wanted.deliveries.every((id) => line.text.includes(id))) show(line);
  }
}

export const logs = command({
  takes: ["host", "json"],
  examples: [
    ["logs", "the last lines of all logs of every host"],
    ["logs receiver nginx --since '10 min ago'", "the deliveries of the last minutes"],
    ["logs --delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958", "one delivery, by the id that the git host shows"],
    ["logs builder --follow", "as it writes, until Ctrl-C"],
  ],
})
  .addArgument(new Argument("[log...]").choices(sources))
  .addOption(new Option("-f, --follow", "print new lines as they come").conflicts("since"))
  .option("-n, --lines <number>", "lines of each log at most", count, 50)
  .option("--since <time>", "lines since then, such as 3d, or a time as journalctl reads it", time, "7 days ago")
  .option("--delivery <id>", "lines that hold this id", deliveryId)
  .action(async (named: readonly Source[], options: LogOptions) => {
    const { lines: most, since, delivery, follow: follows = false, json } = options;
    const deliveries = delivery === undefined ? [] : [delivery];
    const wanted = { sources: named.length > 0 ? named : sources, lines: most, since, deliveries, follow: follows };
    const on = targets((await readStack(ofStack(options))).hosts, options);
    const show = (line: Line): void => {
      const { time, host, source, text } = line;
      const words = [time, ...(on.length > 1 ? [host] : []), source.padEnd(8), text];
      console.log(json ? JSON.stringify(line) : words.join("  "));
    };
    if (follows) return followAll(on, (host) => follow(host, wanted, show));
    const read = async (host: Target): Promise<Line[]> => {
      const answer = await runOnHost(host, logsScript(wanted), 60);
      const seconds = Number(/^s (\d{1,12})$/m.exec(answer)?.[1] ?? 0);
      if (seconds === 0)
        throw new UserError(`${host.name}: systemd cannot read --since ${JSON.stringify(since)}. ${times}`);
      const from = new Date(1000 * seconds).toISOString();
      // journalctl has filtered its own.
      return linesIn(answer, host.name).filter(({ source, time }) => source !== "nginx" || time >= from);
    };
    const { values, faults } = await ended(on.map(read));
    for (const line of values.flat().sort((a, b) => a.time.localeCompare(b.time))) show(line);
    if (faults.length > 0) throw new UserError(faults.join("\n"));
  });
