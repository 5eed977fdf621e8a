/**
 * A site of a real git host, and git on a host whose owner has configured git for other programs; and the lines of git.ts,
 * by name: variables, keys of git's configuration, options of ssh. A test changes or removes one.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { runChild } from "../../../../service/builder/child.ts";
import { makePlaces, placesOf } from "../../../../service/builder/places.ts";
import type { Builder } from "../../../../service/builder/settings.ts";
import { environment, type Git } from "../../../../service/builder/source/git.ts";
import { checkOut, discardClone, fetchHead } from "../../../../service/builder/source/repository.ts";
import type { GitHost } from "../../../fakes/git-host.ts";
import { type Bench, bench, cannotBuild, closeGitHost, gitHost } from "../harness.ts";
import { type HostileHost, hostileHost, noHostileHost } from "../hostile-host.ts";

export let host: GitHost;
export let site: Bench;
export let hostile: HostileHost;

/** Makes them once for all tests of a file; each begins without a clone. */
export function onHostileHost(): void {
  const reason = cannotBuild ?? noHostileHost;
  beforeAll(async () => {
    if (reason !== undefined) return;
    host = await gitHost();
    site = await bench();
    hostile = hostileHost(site.folder);
    makePlaces(site.places);
  });
  beforeEach(({ skip }) => {
    skip(reason !== undefined, reason);
    discardClone(site.places);
  });
  afterEach(() => {
    for (const fault of ["status", "trickles"] as const) delete host?.faults[fault];
    if (host) host.lfs.href = undefined;
  });
  afterAll(async () => {
    site?.remove();
    await closeGitHost();
  });
}

export const git = (changes: Changes = {}, seconds?: number) =>
  gitWith({ ...site.builder, path: hostile.path }, changes, seconds);

/** Fetches the head and checks it out, as a run does. Returns why it cannot. */
export async function checkedOut(by: Git, submodules = false): Promise<string | undefined> {
  const at = { settings: { ...site.builder.settings, submodules }, places: site.places, git: by };
  try {
    await checkOut(at, await fetchHead(at));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

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
  return (args, cwd = clone) => runChild("git", args, { cwd, env, seconds });
}
