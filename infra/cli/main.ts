/**
 * `npx pushgate <command>`: what an operator does beside `pulumi preview` and `pulumi up`. A new command is a file in this
 * folder and a line of this table; `--help` prints what each takes.
 */
import { Command, CommanderError } from "commander";
import { ApiError } from "../edge/api.ts";
import { exitCodes, keptByNpm } from "./command.ts";
import { useEnvironment } from "./environment.ts";
import { build } from "./site/build.ts";
import { logs } from "./site/logs.ts";
import { rollback } from "./site/rollback.ts";
import { status } from "./site/status.ts";
import { adopt } from "./stack/adopt.ts";
import { audit } from "./stack/audit.ts";
import { init } from "./stack/init.ts";
import { secret } from "./stack/secret.ts";
import { UserError } from "./stack.ts";
import { trace } from "./trace/trace.ts";
import { hook } from "./webhook/hook.ts";

const commands = [init, hook, secret, status, logs, trace, build, rollback, audit, adopt];

const examples = `
Examples:
  npx pushgate init                     a stack of your own
  npx pushgate hook                     what to enter at the git host
  npx pushgate status                   each site on each host, and faults
  npx pushgate logs --follow            receiver, builder, nginx and guard as they write
  npx pushgate rollback site            publish the former release again
`;

function add(parent: Command, command: Command): void {
  if (!parent.commands.includes(command)) parent.addCommand(command);
  command.copyInheritedSettings(parent);
  for (const below of command.commands) add(command, below);
}

/** Exit statuses: command.ts. An error that a user can fix is its message alone. */
async function main(): Promise<number> {
  const program = new Command("pushgate")
    // Otherwise `secret` would take the options of `secret show`.
    .enablePositionalOptions()
    .description("Operates what `pulumi up` has declared. Each command has --help.")
    .addHelpText("after", `${examples}${exitCodes}`)
    .helpCommand(false)
    .exitOverride();
  for (const command of commands) add(program, command);
  useEnvironment(process.env);
  try {
    keptByNpm(["host", "stack"], `npx pushgate ${process.argv.slice(2).join(" ")}`, process.env);
    await program.parseAsync();
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its own; 0 is that of --help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof UserError || error instanceof ApiError)) throw error;
    console.error(`pushgate: ${error.message}`);
    return 1;
  }
}

process.exitCode = await main();
