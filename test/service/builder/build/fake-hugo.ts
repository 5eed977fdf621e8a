/**
 * A fake of Hugo's units: a connection to its socket starts the unit's own program with its arguments and environment,
 * and without its sandbox and its limit of time.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import type { Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { SiteHook } from "../../../../infra/config/derived.ts";
import { site } from "../../../../infra/config/site-schema.ts";
import { address, buildArguments, environment } from "../../../../infra/host/builder/hugo.ts";
import { kinds } from "../../../../service/builder/build/dependencies.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { tried } from "../../../../service/tried.ts";
import { startFakeUnit } from "./fake-fetcher.ts";

const beside = (name: string) => fileURLToPath(new URL(`../../../../infra/host/builder/${name}`, import.meta.url));
export const gitconfig = beside("gitconfig");

/** What the unit has from `site.hugo`, `site.npm` and `site.tools`, and the folders of its programs. */
export type Chosen = Partial<SiteHook["site"]["hugo"] & Pick<SiteHook["site"], "npm" | "tools">> & {
  readonly programs?: readonly string[];
};

/** `site.hugo` of a configuration without it. */
export const plainHugo = v.parse(site, { webRoot: "/var/www/site" }).hugo;

/** `path`: the program in place of Hugo. */
export async function startFakeHugo(settings: BuilderSettings, path = "hugo", chosen: Chosen = {}): Promise<Server> {
  const { clone, out, cache, history, dependencies } = placesOf(settings);
  const { content, folder = "", generator } = settings;
  const source = join(clone, folder);
  const { programs: more = [], tools = {}, npm = false, ...given } = chosen;
  const hugo = { ...plainHugo, ...given };
  // In the unit the history lies over the clone's own .git. Hugo passes no GIT_ variables on.
  const programs = `${generator.socket}.programs`;
  const inUnit = `GIT_DIR=${history}/.git GIT_WORK_TREE=${clone} GIT_CONFIG_SYSTEM=${gitconfig}`;
  mkdirSync(programs, { recursive: true });
  writeFileSync(join(programs, "git"), `#!/bin/sh\nPATH=\${PATH#*:}\n${inUnit} exec git "$@"\n`, { mode: 0o755 });
  const PATH = [programs, ...more, process.env.PATH].join(":");
  const env = { ...environment({ content, destination: out, cache }, { hugo, npm, tools }), PATH, HOME: "/dev/null" };
  const variable = settings.previews === undefined ? "" : address;
  const shell = [
    // As the unit, where something was fetched.
    ...Object.entries(kinds)
      .map(([kind, { place }]) => [`${dependencies}/${kind}/${place}`, `${source}/${place}`])
      .map(([from, to]) => `[ ! -d ${from} ] || mount --bind -o ro ${from} ${to}`),
    'hugo=$(command -v "$0" || :)',
    `exec sh ${beside("generator.sh")} build "" "${variable}" ${cache} "$hugo" "$@"`,
  ].join("\n");
  const start = ["sh", "-ec", shell, path, ...buildArguments(hugo.arguments)];
  return startFakeUnit(generator, async (connection, id) => {
    const mounting = existsSync(dependencies) ? ["--user", "--map-root-user", "--mount"] : [];
    const [command = "", ...words] = mounting.length > 0 ? ["unshare", ...mounting, ...start] : start;
    // The unit ends after all of its processes, which have the last of these open.
    const stdio = ["pipe", "pipe", "pipe", "pipe"] as const;
    const child = spawn(command, words, {
      cwd: source,
      env: { ...env, INVOCATION_ID: id },
      stdio: [...stdio],
      detached: true,
    });
    connection.pipe(child.stdin.on("error", () => {}));
    for (const output of [child.stdout, child.stderr]) output.pipe(connection, { end: false });
    // The builder was killed: its unit stops this one before the next build.
    connection.on("close", () => tried(() => process.kill(-child.pid!, "SIGKILL")));
    const [code, signal] = await once(child, "close");
    if (code === 0) return "success exited 0";
    return signal ? `signal killed ${signal.replace("SIG", "")}` : `exit-code exited ${code}`;
  });
}
