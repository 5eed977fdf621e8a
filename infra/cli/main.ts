/** `npx pushgate <command>`. A command's file is loaded when it is named, so that `--help` loads none. */
import { Command, CommanderError } from "commander";
import { version } from "../apply/version.ts";
import { ApiError } from "../edge/api.ts";
import { UserError } from "../user-error.ts";
import { command, exitCodes, keptByNpm, named } from "./command.ts";
import { forgetStack } from "./stack.ts";

/** Folder, usage and description. The file has the command's name, and exports it. */
const commands = [
  ["stack", "init", "make a stack of your own: prompts, tries the host, writes Pulumi.<stack>.yaml"],
  ["webhook", "hook [hook]", "print what to enter at the git host, or enter it with the git host's token"],
  ["stack", "secret", "rotate the secret that a git host signs with"],
  ["stack", "tools <hook> [release...]", "read what a site needs from its repository, and name releases of programs"],
  ["site", "status", "show each site on each host, what waits for a build, and faults"],
  ["site", "deploys [hook]", "show the last runs of each site, and one with what its build printed"],
  ["site", "where <commit>", "say why a page is not new: what became of a commit on each host, and at Cloudflare"],
  ["site", "logs [log...]", "print the logs of receiver, builder, nginx, guard"],
  ["trace", "trace", "find the layer that rejected a delivery, and the fix"],
  ["site", "build <hook>", "build a site now, without a push, and wait for the result"],
  ["site", "rollback <hook> [release]", "publish a kept release again"],
  ["site", "notify <hook>", "send a test to each recipient of site.notify, and print the answers"],
  ["stack", "audit", "compare Cloudflare, every host and webhooks with the declaration"],
  ["stack", "networks", "bring the address ranges up to date that Cloudflare and git hosts publish"],
  ["stack", "adopt", "take over what exists at Cloudflare, also after a lost state"],
] as const;

function add(parent: Command, command: Command): void {
  if (!parent.commands.includes(command)) parent.addCommand(command);
  command.copyInheritedSettings(parent);
  for (const below of command.commands) add(command, below);
}

/** `secret --stack second rotate site` is `secret rotate site --stack second`. */
function inherit(command: Command): void {
  const { options, parent } = command;
  for (const option of parent!.options) {
    const name = option.attributeName();
    if (parent!.getOptionValueSource(name) !== "cli") continue;
    if (!options.some(({ long }) => long === option.long))
      command.error(`error: ${command.name()} has no option ${option.long}`);
    if (command.getOptionValueSource(name) !== "cli") command.setOptionValue(name, parent!.getOptionValue(name));
  }
}

/** Returns the exit status: command.ts. An error that a user can fix is its message alone. */
export async function pushgate(words: readonly string[]): Promise<number> {
  forgetStack();
  const program = new Command("pushgate")
    .enablePositionalOptions()
    .description("Operates what `pulumi up` has declared. Each command has --help.")
    .addHelpText("after", exitCodes)
    .version(version, "--version", "print the version")
    .helpCommand(false)
    .hook("preAction", (_, command) => inherit(command))
    .exitOverride();
  for (const [folder, usage, description] of commands) {
    const [name = ""] = usage.split(" ");
    const loaded: Readonly<Record<string, Command>> =
      words[0] === name ? await import(`./${folder}/${name}.ts`) : { [name]: command({}) };
    add(program, named(usage, description, loaded[name]!));
  }
  try {
    keptByNpm(["host", "stack"], `npx pushgate ${words.join(" ")}`, process.env);
    await program.parseAsync(words, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its own; 0 is that of --help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof UserError || error instanceof ApiError)) throw error;
    console.error(`pushgate: ${error.message}`);
    return 1;
  }
}
