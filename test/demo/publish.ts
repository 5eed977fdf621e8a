/**
 * From a push to a page without root: a git host over https, the receiver's own spool, the builder as the program that
 * is installed on a host, and a fake of Hugo's units. The host suite tests what confines them there.
 */
import { execFileSync } from "node:child_process";
import { bench, bundledBuilder, closeGitHost, finish, start } from "../service/builder/harness.ts";

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

/** `spool`: the receiver's folder for the hook. */
export async function startPublishing(spool: string) {
  const { builder, ...made } = await bench();
  const site = { ...made, builder: { ...builder, settings: { ...builder.settings, spool } } };
  const bundle = await bundledBuilder(site.folder);
  return {
    ...{ repository: site.repository, page: site.page },
    /** Runs the builder until nothing is pending or a run fails. Returns status.json. */
    build: () => finish(site, start(site, bundle)),
    async close() {
      site.remove();
      await closeGitHost();
    },
  };
}
