/**
 * The smallest program that compares and repairs: it reads the live file and its stamp, and the command's stdin repeats
 * the stamp while the file is as wanted. `folder` is in place of a host.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";

const config = new pulumi.Config();
const folder: string = config.require("folder");
const wanted: string = config.require("wanted");

const read = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : "");
const live = read("live");
const inSync = live === wanted;
if (!inSync) await pulumi.log.warn(`live is ${JSON.stringify(live)}, not ${JSON.stringify(wanted)}`);

const shell = { interpreter: ["sh"], create: "-s", addPreviousOutputInEnv: false };
export const secretOutput = new command.local.Command(
  "secret",
  { ...shell, stdin: pulumi.interpolate`printf %s ${config.requireSecret("password")}`, logging: "none" },
  { additionalSecretOutputs: ["stdout"] },
).stdout;

const script = config.get("script") ?? `printf %s ${wanted} > live`;
const next = inSync ? read("stamp") : randomUUID();
new command.local.Command(
  "layer",
  { ...shell, stdin: `cd ${folder}; ${script} || exit; printf ${next} > stamp; echo applied >&2\n`, logging: "stderr" },
  { retainOnDelete: true },
);
