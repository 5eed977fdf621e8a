/**
 * A fake of Hugo's units: a connection to its socket starts Hugo as a child process with the unit's arguments and
 * environment, and without its sandbox and its limit of time. A first line and the output go back over the connection, and the end into a
 * file, as from the unit.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SiteHook } from "../../../../infra/config/derived.ts";
import { addressed, buildArguments, environment, fillCache, look } from "../../../../infra/host/builder/hugo.ts";
import { beginOfBuild, endOfFolders } from "../../../../service/builder/build/content.ts";
import { kinds } from "../../../../service/builder/build/dependencies.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";

export const gitconfig = fileURLToPath(new URL("../../../../infra/host/builder/gitconfig", import.meta.url));

/** What the unit has from `site.hugo` and `site.tools`, and the folders of its programs. */
export type Chosen = Partial<SiteHook["site"]["hugo"] & Pick<SiteHook["site"], "npm" | "tools">> & {
  readonly programs?: readonly string[];
};

/** `path`: the program in place of Hugo. */
export async function startFakeHugo(settings: BuilderSettings, path = "hugo", chosen: Chosen = {}): Promise<Server> {
  const { clone, out, cache, pages, history, dependencies } = placesOf(settings);
  const { content, folder = "", generator } = settings;
  const source = join(clone, folder);
  const {
    programs: more = [],
    arguments: flags = [],
    tools = {},
    npm = false,
    ...hugo
  } = { exec: [], http: [], ...chosen };
  const args = buildArguments(flags);
  const variables = environment({ content, destination: out, cache }, { hugo, tools, npm });
  // In the unit the history lies over the clone's own .git. Hugo passes no GIT_ variables on.
  const programs = `${generator.socket}.programs`;
  const inUnit = `GIT_DIR=${history}/.git GIT_WORK_TREE=${clone} GIT_CONFIG_SYSTEM=${gitconfig}`;
  mkdirSync(programs, { recursive: true });
  writeFileSync(join(programs, "git"), `#!/bin/sh\nPATH=\${PATH#*:}\n${inUnit} exec git "$@"\n`, { mode: 0o755 });
  const env = { ...variables, PATH: [programs, ...more, process.env.PATH].join(":"), HOME: "/dev/null" };
  // As the unit, where something was fetched.
  const mounts = Object.entries(kinds)
    .map(([kind, { place }]) => [`${dependencies}/${kind}/${place}`, `${source}/${place}`])
    .map(([from, to]) => `[ ! -d ${from} ] || mount --bind -o ro ${from} ${to}`);
  const mounting = ["--user", "--map-root-user", "--mount", "sh", "-ec", `${mounts.join("\n")}\nexec "$@"`, "sh", path];
  const inRoot = (words: readonly string[]): [string, string[]] =>
    existsSync(dependencies) ? ["unshare", [...mounting, ...words]] : [path, [...words]];
  const looked = (words: string) => spawnSync(...inRoot(words.split(" ")), { cwd: source, env, encoding: "utf8" });
  let busy = false;
  let builds = 0;
  let end = () => {};
  const server = createServer((connection) => {
    connection.on("error", () => {});
    // MaxConnections=1: the second is closed at once, without a first line.
    if (busy) return connection.destroy();
    busy = true;
    builds += 1;
    const id = builds.toString(16).padStart(32, "0");
    connection.write(`${beginOfBuild}${id}\n`);
    spawnSync("sh", ["-c", fillCache(cache)], { cwd: source });
    const { stdout, stderr } = looked(look.folders);
    connection.write(`${stdout ?? ""}${stderr ?? ""}${endOfFolders}\n`);
    if (!existsSync(pages)) writeFileSync(pages, looked(look.pages).stdout ?? "");
    // Its own process group, in place of the unit's control group.
    const [command, words] = inRoot(args);
    const before = settings.previews === undefined ? [] : ["sh", "-c", `${addressed}; exec "$@"`, "sh"];
    const [first = "", ...others] = [...before, command, ...words];
    const child = spawn(first, others, { cwd: source, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    connection.pipe(child.stdin.on("error", () => {}));
    end = () => {
      try {
        process.kill(-child.pid!, "SIGKILL");
      } catch {} // it has ended
    };
    for (const output of [child.stdout, child.stderr]) output.pipe(connection, { end: false });
    // The builder was killed: its unit stops this one before the next build.
    connection.on("close", end);
    child.on("exit", end);
    child.on("close", (code, signal) => {
      busy = false;
      const failed = signal ? `signal killed ${signal.replace("SIG", "")}` : `exit-code exited ${code}`;
      writeFileSync(generator.result, `${id} ${code === 0 ? "success exited 0" : failed}\n`);
      connection.end();
    });
  });
  // The unit that kills Hugo's.
  const stop = createServer((connection) => {
    end();
    connection.destroy();
  });
  server.once("close", () => stop.close());
  for (const [listener, path] of [
    [server, generator.socket],
    [stop, `${generator.socket}.stop`],
  ] as const) {
    rmSync(path, { force: true });
    await new Promise<void>((resolve) => listener.listen(path, resolve));
  }
  return server;
}
