/** What the hosts' logs hold of a delivery, and what the builder did with it, by one connection to each host. */
import { type Attempt, attempts } from "../trace/attempts.ts";
import { all, type Options, ofStack, targets } from "./command.ts";
import { short } from "./format.ts";
import { parseReport, type Report, reportScript } from "./host-report.ts";
import { logsScript, reader } from "./logs.ts";
import { runOnHost } from "./run-on-host.ts";
import { readStack } from "./stack.ts";

/** `notLooked`: why Cloudflare's events were not read. */
export type Traced = Attempt & { readonly host?: string; readonly published?: string; readonly notLooked?: string };

/** What the builder did with what the receiver accepted; undefined where the hook has no site or no build has ended. */
function publishedText({ time, hook }: Attempt, report: Report): string | undefined {
  const { deployed, last } = report.hooks.find(({ name }) => name === hook)?.status ?? {};
  if (last === undefined || time === undefined) return undefined;
  if (deployed && deployed.at >= time)
    return `published: commit ${short(deployed.commit)} at ${deployed.at}, after this delivery`;
  return `not published: the last build ended at ${last.at}: ${last.result}, ${last.reason}`;
}

/** Each attempt of a delivery on each host; without a line on any, one that reached none. */
export async function onHosts(delivery: string, options: Options): Promise<Traced[]> {
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
