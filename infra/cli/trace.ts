/**
 * `npx pushgate trace`: which layer rejected a delivery, and the fix. It reads the logs of every host by one connection
 * each, what the git host shows, as far as the operator types it, and Cloudflare's security events of its ray.
 */
import { InvalidArgumentError } from "commander";
import type { Answer } from "../trace/evidence.ts";
import { verdict } from "../trace/verdict.ts";
import { command, type Options, ofStack } from "./command.ts";
import { deliveryId } from "./logs.ts";
import { UserError } from "./stack.ts";
import { accessOf, atCloudflare } from "./trace-cloudflare.ts";
import { onHosts, type Traced } from "./trace-hosts.ts";
import { exitOf, traceText } from "./trace-text.ts";

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

export const trace = command("trace", "find the layer that rejected a delivery, and the fix", {
  takes: ["host", "json"],
  examples: [
    ["trace --delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958", "by the id that the git host shows"],
    ["trace --status 403 --header 'cf-ray: 8f0c2d1e3a4b5c6d-FRA'", "by what the git host shows: Cloudflare's events"],
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
    const answer = status === undefined ? undefined : { status, headers };
    const logged: Traced[] = delivery === undefined ? [{}] : await onHosts(deliveryId(delivery), options);
    const [looked] = await atCloudflare([answer], () => accessOf(ofStack(options)));
    // Of several attempts, the answer is that of those whose lines it does not contradict.
    const own = logged.filter((one) => answer === undefined || verdict({ ...one, answer }).outcomes.length > 0);
    const traced = answer === undefined ? logged : own.map((one) => ({ ...one, answer }));
    const found = (traced.length > 0 ? traced : [{ ...(answer && { answer }) }])
      .map((one) => ({ ...one, ...looked }))
      .map((one) => ({ ...one, ...verdict(one) }));
    if (options.json) console.log(JSON.stringify(found, null, 2));
    else for (const one of found) console.log(traceText(one, one));
    process.exitCode = exitOf(found.at(-1)!);
  });
