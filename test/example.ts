/** The settings every pure test renders: Pulumi.prod.yaml's one host and two git hosts, so two source sets. */
import { type Host, parseSettings, type Settings } from "../infra/settings.ts";
import { stackConfig } from "./stack-file.ts";

export const example: Settings = parseSettings(stackConfig(), () => true).settings;

export const exampleHost: Host = example.hosts[0]!;
