/**
 * The smallest program that compares and repairs: a probe reads the live file and its stamp, and the command's stdin
 * repeats the stamp while the file is as wanted. `folder` is in place of a host.
 */
import { randomUUID } from "node:crypto";
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";

const config = new pulumi.Config();
const folder: string = config.require("folder");
const wanted: string = config.require("wanted");

const probe = await command.local.run({
  command: config.get("probe") ?? "cat stamp live 2>/dev/null || true",
  dir: folder,
  logging: "none",
  addPreviousOutputInEnv: false,
});
const [stamp, live = ""] = probe.stdout.split("\n");
const inSync = live === wanted;
if (!inSync) await pulumi.log.warn(`live is ${JSON.stringify(live)}, not ${JSON.stringify(wanted)}`);

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

const next = inSync ? stamp : randomUUID();
export const applied = new command.local.Command(
  "layer",
  {
    interpreter: ["sh"],
    create: "-s",
    dir: folder,
    environment: { WANTED: wanted },
    stdin: `${config.get("script") ?? 'printf %s "$WANTED" > live'} || exit; echo ${next} > stamp; echo applied >&2\n`,
    addPreviousOutputInEnv: false,
    logging: "stderr",
  },
  { retainOnDelete: true },
).stderr;

// No layer may have triggers: they replace the resource, and the old one's `delete` then undoes the new one's `create`.
new command.local.Command("triggered", {
  dir: folder,
  create: "echo create >> log",
  delete: "echo delete >> log",
  triggers: [config.get("trigger") ?? "a"],
});
