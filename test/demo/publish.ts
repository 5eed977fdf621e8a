/**
 * From a push to a page without root: a git host over https, the receiver's own spool, the builder as the program that
 * is installed on a host, and a fake of Hugo's units. The host suite tests what confines them there.
 */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assetExtensions, buildPaths } from "../../infra/config/site-schema.ts";
import type { Status } from "../../service/builder/run/status.ts";
import type { BuilderSettings } from "../../service/builder/settings.ts";
import { startGitHost } from "../fakes/git-host.ts";
import type { Repository } from "../fakes/git-repository.ts";
import { startFakeHugo } from "../service/builder/build/fake-hugo.ts";
import { writeContent } from "../service/builder/hugo-site.ts";
import { anywhere, bundled } from "../service/bundles.ts";

/** Debian 12's release; an older one reads no hugo.toml. */
const oldestHugo = [0, 111];

function versionOf(tool: string): string | undefined {
  try {
    return execFileSync(tool, ["version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}

/** Why this host can publish no page, with the command that fixes it; undefined if it can. */
export function cannotPublish(): string | undefined {
  const hugo = versionOf("hugo");
  const absent = ["git", "openssl"].filter((tool) => versionOf(tool) === undefined);
  if (hugo === undefined) absent.push("hugo");
  if (absent.length > 0) return `${absent.join(" and ")} not installed: apt-get install ${absent.join(" ")}`;
  const [major = 0, minor = 0] = (/v(\d+)\.(\d+)/.exec(hugo!)?.slice(1) ?? []).map(Number);
  const [least = 0, leastMinor = 0] = oldestHugo;
  if (major > least || (major === least && minor >= leastMinor)) return undefined;
  return `Hugo is ${major}.${minor}, older than ${oldestHugo.join(".")}: apt-get install hugo, on Debian 12 or later`;
}

export type Publishing = {
  readonly repository: Repository;
  /** Runs the builder until nothing is pending or a run fails. Returns status.json. */
  readonly build: () => Promise<Status>;
  /** The text of a published page. */
  readonly page: (path?: string) => string;
  readonly close: () => Promise<void>;
};

/** `spool`: the receiver's folder for the hook. */
export async function startPublishing(spool: string): Promise<Publishing> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-publish-"));
  const at = (name: string) => join(folder, name);
  const site = at("site");
  for (const path of [at("requests"), at("root"), at("content")]) mkdirSync(path, { recursive: true });
  writeContent(at("content"));
  const host = await startGitHost();
  const settings: BuilderSettings = {
    hook: "site",
    repository: host.url("site"),
    branch: "main",
    spool,
    requests: at("requests"),
    rootRequests: at("root"),
    site,
    content: at("content"),
    paths: buildPaths,
    folders: [],
    assets: assetExtensions,
    submodules: true,
    reconcileMinutes: 15,
    generator: { socket: at("hugo.sock"), result: at("hugo.result") },
    fetcher: { socket: at("no"), result: at("no"), registries: { go: "https://a", npm: "https://b" } },
    limits: { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 20 },
  };
  writeFileSync(at("builder.json"), JSON.stringify(settings));
  await bundled("builder", at("builder.cjs"), anywhere);
  const fakeHugo = await startFakeHugo(settings);
  const env = { PATH: process.env.PATH, PUSHGATE_SETTINGS: at("builder.json"), GIT_SSL_CAINFO: host.caFile };

  const status = () => JSON.parse(readFileSync(join(site, "status.json"), "utf8")) as Status;
  const build = () =>
    new Promise<Status>((resolve, reject) => {
      const child = spawn(process.execPath, [at("builder.cjs")], { env, stdio: ["ignore", "pipe", "pipe"] });
      let noise = "";
      // The builder prints a line for each run, and would wait to try a failed one again.
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
