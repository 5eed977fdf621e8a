/** The lines of git.ts, by name: variables, keys of git's configuration, options of ssh. A test changes or removes one. */
import { type Ended, runChild } from "../../../../service/builder/child.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import type { Builder } from "../../../../service/builder/settings.ts";
import { environment, type Git } from "../../../../service/builder/source/git.ts";

type Environment = Readonly<Record<string, string>>;

const key = /^GIT_CONFIG_KEY_/;
const option = / -o '(\w+)=(?:[^']|'\\'')*'/g;

export function linesOf(builder: Builder): string[] {
  const env = environment(builder);
  const variables = Object.keys(env).filter(
    (name) => !name.startsWith("GIT_CONFIG_") || name === "GIT_CONFIG_NOSYSTEM",
  );
  const keys = Object.keys(env).filter((name) => key.test(name));
  const ssh = env.GIT_SSH_COMMAND!;
  const options = [...ssh.matchAll(option)].map(([, name]) => name!);
  return [...variables, ...keys.map((name) => env[name]!), ...(ssh.includes(" -F ") ? ["-F"] : []), ...options].sort();
}

/** Values for lines; undefined removes one. A line that is not there is an error of the test. */
export type Changes = Readonly<Record<string, string | undefined>>;

export function changed(env: Environment, changes: Changes): Record<string, string> {
  const result: Record<string, string | undefined> = { ...env };
  for (const [name, value] of Object.entries(changes)) {
    const entry = Object.keys(env).find((each) => key.test(each) && env[each] === name);
    const ssh = result.GIT_SSH_COMMAND!;
    const words = name === "-F" ? " -F none" : ([...ssh.matchAll(option)].find(([, each]) => each === name)?.[0] ?? "");
    if (name in env) result[name] = value;
    else if (entry && value === undefined) result[entry] = "removed.by-the-test";
    else if (entry) result[entry.replace("KEY", "VALUE")] = value;
    else if (words) result.GIT_SSH_COMMAND = ssh.replace(words, value === undefined ? "" : ` -o '${name}=${value}'`);
    else throw new Error(`git.ts has no line ${name}`);
  }
  return Object.fromEntries(
    Object.entries(result).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** git as the builder runs it, with these lines changed, and `more` variables that git.ts does not set. */
export function gitWith(builder: Builder, changes: Changes = {}, seconds = 30, more: Environment = {}): Git {
  const env = { ...changed(environment(builder), changes), ...more };
  const { clone } = placesOf(builder.settings);
  return (args, cwd = clone): Promise<Ended> => runChild("git", args, { cwd, env, seconds });
}
