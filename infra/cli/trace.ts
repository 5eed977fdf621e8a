/**
 * `npx pushgate trace`: which layer rejected a delivery, and the fix. It reads the logs of every host by one connection
 * each, and what the git host shows, as far as the operator types it.
 */
import { InvalidArgumentError } from "commander";
import { type Attempt, attempts } from "../trace/attempts.ts";
import type { Answer } from "../trace/evidence.ts";
import { layers } from "../trace/outcomes.ts";
import { type Verdict, verdict } from "../trace/verdict.ts";
import { all, command, type Options, ofStack, targets } from "./command.ts";
import { short } from "./format.ts";
import { parseReport, type Report, reportScript } from "./host-report.ts";
import { deliveryId, logsScript, reader } from "./logs.ts";
import { runOnHost } from "./run-on-host.ts";
import { readStack, UserError } from "./stack.ts";

type Traced = Attempt & { readonly host?: string; readonly published?: string };

/** 0 delivered, 1 rejected and named, 2 unknown. */
const exitOf = ({ certainty, outcomes }: Verdict): number => {
  if (certainty === "unknown") return 2;
  return outcomes.every(({ layer }) => layer === "delivered") ? 0 : 1;
};

const reached = ({ outcomes: [first] }: Verdict): number =>
  first === undefined || first.layer === "delivered" ? layers.length : layers.indexOf(first.layer);

/** The path layer by layer, the evidence, the fix, and what was not looked at. */
export function traceText({ host, time, answer, nginx, receiver, published }: Traced, found: Verdict): string {
  const { certainty, outcomes } = found;
  const at = reached(found);
  const path = layers.map((layer, i) => {
    if (i === 0 && at > 0) return [layer, "sent it"];
    if (certainty === "unknown") return [layer, i < at ? "passed" : "unknown"];
    if (i === at) return [layer, `${certainty === "likely" ? "probably " : ""}rejected it`];
    return [layer, i < at ? "passed" : "not reached"];
  });
  const seen = [
    ["the git host's page", answer === undefined ? undefined : `${answer.status} ${JSON.stringify(answer.headers)}`],
    ["nginx", nginx === undefined ? undefined : nginx === "none" ? "no line" : JSON.stringify(nginx)],
    ["receiver", receiver === undefined ? undefined : receiver === "none" ? "no line" : JSON.stringify(receiver)],
  ] as const;
  const lines = [
    [host, time].filter((one) => one !== undefined).join(", "),
    ...path.map(([layer = "", what = ""]) => `  ${layer.padEnd(24)}${what}`),
    ...(outcomes.length === 0 ? ["no outcome that pushgate knows fits what was seen"] : []),
    ...outcomes.flatMap(({ what, fix }) => [`${certainty}: ${what}.`, ...(fix === undefined ? [] : [`  fix: ${fix}`])]),
    ...(published === undefined || exitOf(found) !== 0 ? [] : [published]),
    "seen:",
    ...seen.map(([source, what]) => `  ${source.padEnd(24)}${what ?? "not looked at"}`),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}

type TraceOptions = Options & { delivery?: string; status?: number; header: Answer["headers"] };

const status = (text: string): number => {
  if (!/^(0|[1-5]\d\d)$/.test(text))
    throw new InvalidArgumentError("Use the status that the git host shows, or 0 for none.");
  return Number(text);
};
const header = (text: string, former: Answer["headers"]): Answer["headers"] => {
  const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError("Write it as 'name: value'.");
  return { ...former, [name.toLowerCase()]: value };
};

/** What the builder did with what the receiver accepted; undefined where the hook has no site or no build has ended. */
function publishedText({ time, hook }: Attempt, report: Report): string | undefined {
  const { deployed, last } = report.hooks.find(({ name }) => name === hook)?.status ?? {};
  if (last === undefined || time === undefined) return undefined;
  if (deployed && deployed.at >= time)
    return `published: commit ${short(deployed.commit)} at ${deployed.at}, after this delivery`;
  return `not published: the last build ended at ${last.at}: ${last.result}, ${last.reason}`;
}

/** Each attempt of a delivery on each host; without a line on any, one that reached none. */
async function onHosts(delivery: string, options: Options): Promise<Traced[]> {
  const { hosts, hooks } = await readStack(ofStack(options));
  const wanted = {
    sources: ["receiver", "nginx"],
    lines: 1_000,
    since: "7 days ago",
    delivery,
    follow: false,
  } as const;
  const built = hooks.map(({ name, site }) => ({ name, built: site !== undefined }));
  const found = await all(
    targets(hosts, options).map(async (host) => {
      const text = await runOnHost(host, `(\n${logsScript(wanted)}\n)\n${reportScript(built)}`, 60);
      const report = parseReport(host.name, text, built);
      const lines = text.split("\n").flatMap((line) => reader(host.name)(line) ?? []);
      return attempts(delivery, lines).map((one): Traced => {
        const published = publishedText(one, report);
        return { ...one, host: host.name, ...(published !== undefined && { published }) };
      });
    }),
  );
  const somewhere = found.flat().filter(({ time }) => time !== undefined);
  return somewhere.length > 0 ? somewhere : [{ nginx: "none", receiver: "none" }];
}

export const trace = command("trace", "find the layer that rejected a delivery, and the fix", {
  takes: ["host", "json"],
  examples: [
    ["trace --delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958", "by the id that the git host shows"],
    ["trace --status 403 --header 'cf-mitigated: challenge'", "by what the git host shows, without a look at a host"],
    ["trace --delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958 --status 522", "by both"],
  ],
})
  .option("--delivery <id>", "look for this id in the logs of nginx and the receiver")
  .option("--status <number>", "the status that the git host shows; 0 for none", status)
  .option("--header <line>", "a header of the answer that the git host shows; may be repeated", header, {})
  .addHelpText("after", "\nExit status:\n  0  delivered\n  1  rejected, and the layer is named\n  2  unknown")
  .action(async ({ delivery, status, header: headers, ...options }: TraceOptions) => {
    if (delivery === undefined && status === undefined)
      throw new UserError("there is nothing to trace. Add --delivery or --status, as the git host shows them.");
    const logged: Traced[] = delivery === undefined ? [{}] : await onHosts(deliveryId(delivery), options);
    const answer = status === undefined ? undefined : { status, headers };
    // Of several attempts, the answer is that of those that ended with its status.
    const own = logged.filter(({ nginx }) => nginx === undefined || nginx === "none" || nginx.status === status);
    const traced = answer === undefined ? logged : own.map((one) => ({ ...one, answer }));
    const found = (traced.length > 0 ? traced : [{ ...(answer && { answer }) }]).map((one) => ({
      ...one,
      ...verdict(one),
    }));
    if (options.json) console.log(JSON.stringify(found, null, 2));
    else for (const one of found) console.log(traceText(one, one));
    process.exitCode = exitOf(found.at(-1)!);
  });
