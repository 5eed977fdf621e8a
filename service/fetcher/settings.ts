/** What the fetcher reads of the builder's settings, which are public. */
import { type BuilderSettings, builderShape } from "../builder/settings.ts";
import { type Environment, environment, readShape, withFaults } from "../settings.ts";

export type Registries = BuilderSettings["fetcher"]["registries"];

export const readFetcher = (env: Environment = environment) =>
  withFaults((report) => {
    const settings = readShape(builderShape, env, report);
    return settings && { settings, build: env.INVOCATION_ID ?? "" };
  });
