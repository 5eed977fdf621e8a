/** Has each host's reporter send a test to the recipients of `site.notify`, and prints what they answer. */
import { Option } from "commander";
import * as v from "valibot";
import { runOnHost, type Target } from "../../apply/run-on-host.ts";
import { scriptBeside, variables } from "../../apply/shell.ts";
import { notifyTest, reporterSettingsPath, units } from "../../host/paths.ts";
import { UserError } from "../../user-error.ts";
import { command, ended, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { readStack } from "../stack.ts";
import { decoded, text } from "./host-report.ts";

const answersShape = v.object({
  answers: v.array(
    v.object({ to: text, host: text, result: v.picklist(["sent", "rejected", "delayed"]), reason: text }),
  ),
});
type Answer = Readonly<Record<"host" | "recipient" | "server" | "result" | "reason", string>>;

export const testScript = (hook: string, seconds = 40): string => {
  const places = { settings: reporterSettingsPath(hook), test: notifyTest(hook), unit: units.report(hook) };
  return `${variables({ hook, seconds, ...places })}\n${scriptBeside(import.meta.url, "notify.sh")}`;
};

async function tested(host: Target, hook: string): Promise<Answer[]> {
  const line = decoded(await runOnHost(host, testScript(hook), 60));
  const checked = v.safeParse(v.pipe(v.string(), v.parseJson(), answersShape), line);
  if (!checked.success) throw new UserError(`${host.name}: its reporter is another release's. Run npx pulumi up.`);
  return checked.output.answers.map(({ to, host: server, result, reason }) => ({
    ...{ host: host.name, recipient: to.replace("notify.", ""), server, result, reason },
  }));
}

export const notify = command({
  takes: ["host", "json"],
  examples: [["notify site --test", "from each host; exits 0 only if each recipient took it"]],
})
  .addOption(new Option("--test", "send it now, once").makeOptionMandatory())
  .action(async (name: string, options: Options) => {
    const { hosts, hooks } = await readStack(ofStack(options));
    const { site } = siteNamed(hooks, name);
    if (site.notify.length === 0) throw new UserError(`${name} has no recipient. Add one to site.notify.`);
    const { values, faults } = await ended(targets(hosts, options).map((host) => tested(host, name)));
    const answers = values.flat();
    if (options.json) console.log(JSON.stringify(answers, null, 2));
    for (const { host, recipient, server, result, reason } of answers) {
      const line = `${host}: ${recipient} at ${server}: ${result === "sent" ? "took it" : "failed"}: ${reason}`;
      if (result !== "sent") faults.push(line);
      else if (!options.json) console.log(line);
    }
    if (faults.length > 0) throw new UserError(faults.join("\n"));
  });
