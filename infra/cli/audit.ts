/** `pulumi preview` as an audit: Cloudflare and every host are compared with what the program declares. */
import { command, type Options, ofStack } from "./command.ts";
import { pulumi } from "./stack.ts";

/** `--run-program`: the engine reads Cloudflare with the token of the configuration, not with that of the last `up`. */
export const auditArguments = ["preview", "--run-program", "--expect-no-changes", "--diff"];

export const audit = command("audit", "compare Cloudflare and every host with the declaration; changes nothing", {
  examples: [["audit", "exits 0 if all is as declared, 7 on drift, 1 if it could not look"]],
}).action(async (options: Options) => {
  const { code } = await pulumi([...auditArguments, ...ofStack(options)], { shown: true, prompts: true });
  process.exitCode = code ?? 1;
});
