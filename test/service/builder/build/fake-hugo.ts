/**
 * A fake of Hugo's units: a connection to its socket starts Hugo as a child process with the unit's arguments and
 * environment, and without its sandbox and its limit of time.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import type { Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SiteHook } from "../../../../infra/config/derived.ts";
import { addressed, buildArguments, environment, fillCache, look } from "../../../../infra/host/builder/hugo.ts";
import { kinds } from "../../../../service/builder/build/dependencies.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { startFakeUnit } from "./fake-fetcher.ts";

export const gitconfig = fileURLToPath(new URL("../../../../infra/host/builder/gitconfig", import.meta.url));

/** What the unit has from `site.hugo`, `site.npm` and `site.tools`, and the folders of its programs. */
export type Chosen = Partial<SiteHook["site"]["hugo"] & Pick<SiteHook["site"], "npm" | "tools">> & {
  readonly programs?: readonly string[];
};

/** `path`: the program in place of Hugo. */
export async function startFakeHugo(settings: BuilderSettings, path = "hugo", chosen: Chosen = {}): Promise<Server> {
  const { clone, out, cache, mounts, pages, history, dependencies } = placesOf(settings);
  const { content, folder = "", generator } = settings;
  const source = join(clone, folder);
  const { programs: more = [], arguments: flags = [], tools = {}, npm = false, ...given } = chosen;
  const site = { tools, npm, hugo: { exec: [], http: [], ...given } };
  // In the unit the history lies over the clone's own .git. Hugo passes no GIT_ variables on.
  const programs = `${generator.socket}.programs`;
  const inUnit = `GIT_DIR=${history}/.git GIT_WORK_TREE=${clone} GIT_CONFIG_SYSTEM=${gitconfig}`;
  mkdirSync(programs, { recursive: true });
  writeFileSync(join(programs, "git"), `#!/bin/sh\nPATH=\${PATH#*:}\n${inUnit} exec git "$@"\n`, { mode: 0o755 });
  const PATH = [programs, ...more, process.env.PATH].join(":");
  const env = { ...environment({ content, destination: out, cache }, site), PATH, HOME: "/dev/null" };
  // As the unit, where something was fetched.
  const binds = Object.entries(kinds)
    .map(([kind, { place }]) => [`${dependencies}/${kind}/${place}`, `${source}/${place}`])
    .map(([from, to]) => `[ ! -d ${from} ] || mount --bind -o ro ${from} ${to}`);
  const mounting = ["--user", "--map-root-user", "--mount", "sh", "-ec", `${binds.join("\n")}\nexec "$@"`, "sh", path];
  const inRoot = (words: readonly string[]): [string, string[]] =>
    existsSync(dependencies) ? ["unshare", [...mounting, ...words]] : [path, [...words]];
  const looked = (words: string) => spawnSync(...inRoot(words.split(" ")), { cwd: source, env, encoding: "utf8" });
  return startFakeUnit(generator, async (connection) => {
    spawnSync("sh", ["-c", fillCache(cache)], { cwd: source });
    writeFileSync(mounts, looked(look.folders).stdout ?? "");
    if (!existsSync(pages)) writeFileSync(pages, looked(look.pages).stdout ?? "");
    const [command, words] = inRoot(buildArguments(flags));
    const before = settings.previews === undefined ? [] : ["sh", "-c", `${addressed}; exec "$@"`, "sh"];
    const [first = "", ...others] = [...before, command, ...words];
    const child = spawn(first, others, { cwd: source, env, stdio: ["pipe", "pipe", "pipe"] });
    connection.pipe(child.stdin.on("error", () => {}));
    for (const output of [child.stdout, child.stderr]) output.pipe(connection, { end: false });
    // The builder was killed: its unit stops this one before the next build.
    connection.on("close", () => child.kill("SIGKILL"));
    const [code, signal] = await once(child, "close");
    if (code === 0) return "success exited 0";
    return signal ? `signal killed ${signal.replace("SIG", "")}` : `exit-code exited ${code}`;
  });
}
