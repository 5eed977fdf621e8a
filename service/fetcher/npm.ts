/** Packages of npm, as package-lock.json names them: npm of the site's Node installs them, and runs none of their scripts. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { lockFault } from "../builder/build/lock-file.ts";
import { runChild } from "../builder/child.ts";
import { remove } from "../builder/files.ts";
import { failed, rejected, type Setback } from "../builder/run/setback.ts";
import type { FetchSettings } from "../builder/settings.ts";
import { environment } from "../settings.ts";

/** Codes of npm that another try does not change. */
const ofRepository = /^E(4(?!08|29)\d\d|USAGE|INTEGRITY|TARGET|JSONPARSE|NOENT|BAD(ENGINE|DEVENGINES|PLATFORM))$/;

export async function packages(wanted: string, fetched: string, { limits, fetcher }: FetchSettings) {
  const { node, registries } = fetcher;
  const text = readFileSync(join(wanted, "package-lock.json"), "utf8");
  const fault = lockFault(text, (path) => existsSync(join(wanted, path)));
  if (fault !== undefined) throw rejected(fault);
  cpSync(wanted, fetched, { recursive: true });
  const args = [
    `${node}/lib/node_modules/npm/bin/npm-cli.js`,
    ...["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"],
    ...["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"], // milliseconds
    // On a disk that the builder watches.
    ...[`--registry=${registries.npm}`, `--cache=${join(fetched, "cache")}`],
  ];
  const { NODE_EXTRA_CA_CERTS = "", NODE_OPTIONS = "" } = environment;
  // Without git, which npm runs for a dependency of package.json that the lock file does not name.
  const env = { PATH: `${node}/bin`, HOME: fetched, NODE_EXTRA_CA_CERTS, NODE_OPTIONS };
  const run = (...more: string[]) =>
    runChild(`${node}/bin/node`, [...args, ...more], { cwd: fetched, env, seconds: limits.seconds });
  let ended = await run();
  // The lock file was made so, as by the repository's own .npmrc, which does not count here.
  if (codeOf(ended.stderr) === "ERESOLVE") ended = await run("--legacy-peer-deps");
  if (ended.code !== 0) throw faultOf(ended.stderr);
  for (const name of readdirSync(fetched)) if (name !== "node_modules") remove(join(fetched, name));
  mkdirSync(join(fetched, "node_modules"), { recursive: true });
}

const codeOf = (stderr: string): string => /^npm (?:error|ERR!) code (\S+)/m.exec(stderr)?.[1] ?? "";

/** From npm's lines: "npm error code E404", and then what it says of that. */
function faultOf(stderr: string): Setback {
  const code = codeOf(stderr);
  const lines = [...stderr.matchAll(/^npm (?:error|ERR!) +(.+)$/gm)].map(([, line]) => line!);
  const said = lines.filter((line) => !/^(code|errno|A complete log|Clean install|Usage:)/.test(line)).slice(0, 3);
  const reason = `npm ci failed, ${code || "without a code"}: ${said.join(" ") || stderr.slice(-300)}`;
  return ofRepository.test(code) ? rejected(reason) : failed(reason);
}
