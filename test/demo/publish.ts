/**
 * From a push to a page without root: a git host over https, the receiver's own spool, the builder as the program that
 * is installed on a host, and a fake of hugo's units. The host suite tests what confines them there.
 */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assetExtensions, buildPaths } from "../../infra/config/schema.ts";
import type { BuilderSettings } from "../../service/builder/settings.ts";
import type { Status } from "../../service/builder/status.ts";
import { startGitHost } from "../fakes/git-host.ts";
import type { Repository } from "../fakes/git-repository.ts";
import { startFakeHugo } from "../service/builder/fake-hugo.ts";
import { writeContent } from "../service/builder/hugo-site.ts";
import { bundled } from "../service/bundles.ts";

/** Debian 12's; an older one reads no hugo.toml. */
const oldestHugo = [0, 111];

function versionOf(tool: string): string | undefined {
  try {
    return execFileSync(tool, ["version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}

/** Why no page can be published here, with the cure; undefined if one can. */
export function cannotPublish(): string | undefined {
  const hugo = versionOf("hugo");
  const absent = ["git", "openssl"].filter((tool) => versionOf(tool) === undefined);
  if (hugo === undefined) absent.push("hugo");
  if (absent.length > 0) return `${absent.join(" and ")} not installed: apt-get install ${absent.join(" ")}`;
  const [major = 0, minor = 0] = (/v(\d+)\.(\d+)/.exec(hugo!)?.slice(1) ?? []).map(Number);
  const [least = 0, leastMinor = 0] = oldestHugo;
  if (major > least || (major === least && minor >= leastMinor)) return undefined;
  return `hugo ${major}.${minor} found, needed is ${oldestHugo.join(".")} or later: apt-get install hugo, on Debian 12 or later`;
}

export type Publishing = {
  readonly repository: Repository;
  /** Shell: the builder, as its unit starts it. */
  readonly command: string;
  /** Runs the builder until nothing is pending; a failing one is cut off. What status.json says then. */
  readonly build: () => Promise<Status>;
  /** As the web server sees it. */
  readonly page: (path?: string) => string;
  readonly close: () => Promise<void>;
};

/** `spool`: where the receiver puts the hook's deliveries; the others where they must be somewhere in particular. */
type Places = { readonly spool: string; readonly asks?: string; readonly site?: string };

export async function startPublishing(places: Places): Promise<Publishing> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-publish-"));
  const at = (name: string) => join(folder, name);
  const { spool, asks = at("asks"), site = at("site") } = places;
  for (const path of [asks, at("content")]) mkdirSync(path, { recursive: true });
  writeContent(at("content"), 3);
  const host = await startGitHost();
  const settings: BuilderSettings = {
    hook: "site",
    repository: host.url("site"),
    branch: "main",
    spool,
    asks,
    site,
    content: at("content"),
    webRoot: at("www"),
    paths: buildPaths,
    keep: [],
    assets: assetExtensions,
    submodules: false,
    hugo: { socket: at("hugo.sock") },
    limits: { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 20, debounceMilliseconds: 100 },
  };
  writeFileSync(at("builder.json"), JSON.stringify(settings));
  await bundled("builder", at("builder.cjs"));
  const fakeHugo = await startFakeHugo(settings);
  const env = { PATH: process.env.PATH, PUSHGATE_SETTINGS: at("builder.json"), GIT_SSL_CAINFO: host.caFile };

  const status = () => JSON.parse(readFileSync(join(site, "status.json"), "utf8")) as Status;
  const words = Object.entries(env).map(([name, value]) => `${name}='${value}'`);
  const build = () =>
    new Promise<Status>((resolve, reject) => {
      const child = spawn(process.execPath, [at("builder.cjs")], { env, stdio: ["ignore", "pipe", "pipe"] });
      let noise = "";
      // A line a run; one that fails waits for the next try, and nobody here does.
      child.stdout.setEncoding("utf8").on("data", (line: string) => {
        if (line.includes('"failing"')) child.kill();
      });
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        noise += text;
      });
      child.on("error", reject);
      child.on("close", (code) =>
        code === 0 || code === null ? resolve(status()) : reject(new Error(`the builder ended with ${code}: ${noise}`)),
      );
    });
  return {
    repository: host.repository("site"),
    command: `env -i ${words.join(" ")} ${process.execPath} ${at("builder.cjs")}`,
    build,
    page: (path = "index.html") => readFileSync(join(site, "current", path), "utf8"),
    async close() {
      fakeHugo.close();
      await host.close();
      // Releases are read-only.
      for (const path of globSync("**", { cwd: site, withFileTypes: true }))
        if (path.isDirectory()) chmodSync(join(path.parentPath, path.name), 0o755);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
