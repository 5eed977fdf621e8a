/** What the fetcher reads of the builder's settings, which are public. */
import { builderShape } from "../builder/settings.ts";
import { type Environment, environment, readShape, withFaults } from "../settings.ts";

export const readFetcher = (env: Environment = environment) =>
  withFaults((report) => {
    const settings = readShape(builderShape, env, report);
    return settings && { settings, build: env.INVOCATION_ID ?? "" };
  });
