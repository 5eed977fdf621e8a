/**
 * From a push to a page without root: a git host over https, the receiver's own spool, the builder as the program that
 * is installed on a host, and a fake of Hugo's units. The host suite tests what confines them there.
 */
import { execFileSync } from "node:child_process";
import { missing } from "../infra/host/namespace.ts";
import { bench, bundledBuilder, closeGitHost, endsOnFailure, finish, start } from "../service/builder/harness.ts";

/** Why this host can publish no page, with the command that fixes it; undefined if it can. */
export function cannotPublish(): string | undefined {
  const absent = missing("git", "openssl", "hugo");
  if (absent !== undefined) return absent;
  const [version, minor] = /0\.(\d+)/.exec(execFileSync("hugo", ["version"], { encoding: "utf8" })) ?? [];
  // Debian 12's release; an older one reads no hugo.toml.
  if (!(Number(minor) < 111)) return undefined;
  return `Hugo is ${version}, older than 0.111: apt-get install hugo, on Debian 12 or later`;
}

/** `spool`: the receiver's folder for the hook. */
export async function startPublishing(spool: string) {
  const { builder, ...made } = await bench();
  const site = { ...made, builder: { ...builder, settings: { ...builder.settings, spool } } };
  const bundle = await bundledBuilder(site.folder, endsOnFailure);
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
