/** The logs of receiver, builder, nginx and guard, of every host, in the order of time. */
import { Argument, Option } from "commander";
import { printable } from "../../../service/printable.ts";
import { scriptBeside, variables } from "../../apply/shell.ts";
import { nginxLogs, units } from "../../host/paths.ts";
import { all, command, type Options, ofStack, targets, valued } from "../command.ts";
import { followOnHost, runOnHost, type Target } from "../run-on-host.ts";
import { readStack, UserError } from "../stack.ts";

/** Units whose journal is a source; nginx writes files. */
const journals = {
  receiver: [units.receiver, units.socket("*")],
  builder: [units.build("*"), units.generator("*", "*"), units.agent("*"), units.report("*")],
  guard: [units.guard, units.firewall, units.routing, units.egress],
} as const;
/** The source of a line by its unit. */
const ofUnits = Object.entries(journals).map(
  ([source, patterns]) =>
    [source, new RegExp(`^(${patterns.join("|").replaceAll(".", "\\.").replaceAll("*", ".*")})$`)] as const,
);
const sources = ["receiver", "builder", "nginx", "guard"] as const;
type Source = (typeof sources)[number];

type Line = {
  /** ISO 8601, UTC. */
  readonly time: string;
  readonly host: string;
  readonly source: string;
  readonly text: string;
};

type Wanted = {
  readonly sources: readonly Source[];
  readonly lines: number;
  readonly since: string;
  /** Texts of which each line holds one; none: every line. */
  readonly deliveries: readonly string[];
  readonly follow: boolean;
  /** Searches the journal only near the lines of nginx, where there are any; for these seconds each time. */
  readonly around?: number;
};

export const logsScript = ({ sources, follow, deliveries, around, ...values }: Wanted): string => {
  const of = (source: Source) => (source === "nginx" ? [] : [journals[source].join(",")]);
  const files = sources.includes("nginx") ? [nginxLogs.access, nginxLogs.error] : [];
  const how = { around: around === undefined ? "no" : "yes", seconds: around ?? 0, follow: follow ? "yes" : "no" };
  const own = { deliveries: deliveries.join("\n"), ...how };
  const head = variables({ journals: sources.flatMap(of), files, ...values, ...own });
  return `${head}\n${scriptBeside(import.meta.url, "logs.sh")}`;
};

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

/** The JSON object of a line; an empty one where it holds none. */
export function objectIn(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

const timeOf = (value: string | number): string => {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "unknown time" : date.toISOString();
};
/** Of journald's __REALTIME_TIMESTAMP. */
export const timeOfMicros = (micros: unknown): string => timeOf(Number(micros) / 1000);

function ofJournal(host: string, text: string): Line {
  const { MESSAGE: message, UNIT, _SYSTEMD_UNIT, __REALTIME_TIMESTAMP: micros } = objectIn(text);
  const unit = String(UNIT ?? _SYSTEMD_UNIT ?? "");
  const [source = "guard"] = ofUnits.find(([, pattern]) => pattern.test(unit)) ?? [];
  // journald hands a text that is not UTF-8 over as a list of bytes.
  const said = Array.isArray(message) ? Buffer.from(message as number[]).toString("utf8") : String(message ?? "");
  return { time: timeOfMicros(micros), host, source, text: printable(said) };
}

function ofNginx(host: string, text: string, offset: string): Line {
  const { time } = objectIn(text);
  const [, day, clock] = /^(\d{4}\/\d\d\/\d\d) (\d\d:\d\d:\d\d) /.exec(text) ?? [];
  const at = typeof time === "string" ? time : `${day?.replaceAll("/", "-")}T${clock}${offset}`;
  return { time: timeOf(at), host, source: "nginx", text: printable(text) };
}

const byTime = (a: Line, b: Line): number => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0);

function print(line: Line, { json }: Options, several: boolean): void {
  const { time, host, source, text } = line;
  console.log(json ? JSON.stringify(line) : [time, ...(several ? [host] : []), source.padEnd(8), text].join("  "));
}

type LogOptions = Options & { lines: number; since: string; delivery?: string; follow?: boolean };

/** Seconds for a host to search its logs. */
const patience = 60;

const idShape = /^[\w.:-]{1,128}$/;
export const isDeliveryId = (text: string): boolean => idShape.test(text);
export const deliveryId = valued(idShape, "Use the id that the git host shows.", String);
const count = valued(/^[1-9]\d{0,5}$/, "Use a number from 1 to 999999.", Number);
const time = valued(/^[\w:. +-]{1,40}$/, 'Use a time as journalctl reads it, such as "2 hours ago".', String);

async function follow(hosts: readonly Target[], wanted: Wanted, show: (line: Line) => void): Promise<void> {
  const followed = async (host: Target): Promise<void> => {
    const read = reader(host.name);
    for await (const text of followOnHost(host, logsScript(wanted))) {
      const line = read(text);
      if (line && wanted.deliveries.every((id) => line.text.includes(id))) show(line);
    }
  };
  // The other hosts are followed until Ctrl-C, so that a fault is printed at once.
  const reported = (error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    console.error(`pushgate: ${error.message}`);
    process.exitCode = 1;
  };
  await all(hosts.map((host) => followed(host).catch(reported)));
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
  .option("--since <time>", "lines since then, as journalctl reads it", time, "7 days ago")
  .option("--delivery <id>", "lines that hold this id", deliveryId)
  .action(async (named: readonly Source[], options: LogOptions) => {
    const { lines: most, since, delivery, follow: follows = false } = options;
    const of = named.length > 0 ? named : sources;
    const deliveries = delivery === undefined ? [] : [delivery];
    const wanted = { sources: of, lines: most, since, deliveries, follow: follows };
    const { hosts } = await readStack(ofStack(options));
    const on = targets(hosts, options);
    const show = (line: Line) => print(line, options, on.length > 1);
    if (follows) return follow(on, wanted, show);
    const answers = await all(
      on.map(async (host) => ({ host, text: await runOnHost(host, logsScript(wanted), patience) })),
    );
    const lines = answers.flatMap(({ host, text }) => {
      const read = reader(host.name);
      const from = new Date(1000 * Number(/^s (\d{1,12})$/m.exec(text)?.[1] ?? 0)).toISOString();
      // journalctl has filtered its own.
      const wanted = ({ source, time }: Line) => source !== "nginx" || time >= from;
      return text
        .split("\n")
        .flatMap((line) => read(line) ?? [])
        .filter(wanted);
    });
    for (const line of lines.sort(byTime)) show(line);
  });
