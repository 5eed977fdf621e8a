/**
 * The smallest program that reconciles: a probe reads the live file, and the command's stdin echoes what is stored there
 * while it is as wanted. `folder` is the machine.
 */
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";

const config = new pulumi.Config();
const folder: string = config.require("folder");
const wanted: string = config.require("wanted");

const probe = await command.local.run({
  command: config.get("probe") ?? 'cat "$FILE" 2>/dev/null || true',
  environment: { FILE: `${folder}/live` },
  logging: "none",
  addPreviousOutputInEnv: false,
});
const inSync = probe.stdout === wanted;
if (!inSync) pulumi.log.warn(`live is ${JSON.stringify(probe.stdout)}, not ${JSON.stringify(wanted)}`);

export const secretOutput = new command.local.Command(
  "secret",
  {
    interpreter: ["sh"],
    create: "-s",
    stdin: pulumi.interpolate`printf %s ${config.requireSecret("password")}`,
    addPreviousOutputInEnv: false,
    logging: "none",
  },
  { additionalSecretOutputs: ["stdout"] },
).stdout;

export const pid = new command.local.Command(
  "layer",
  {
    interpreter: ["sh"],
    create: "-s",
    dir: folder,
    environment: { WANTED: wanted },
    stdin: `${config.get("script") ?? 'printf %s "$WANTED" > live'}; echo applied >&2\n# ${inSync ? "in sync" : `was: ${probe.stdout}`}`,
    addPreviousOutputInEnv: false,
    logging: "stderr",
  },
  { retainOnDelete: true },
).stderr;
