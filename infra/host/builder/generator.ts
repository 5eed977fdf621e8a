/**
 * The generator's unit, the only one in which code of a repository runs. A connection to the socket starts it, and gets its
 * output; how a build ended is in a file that root writes (decision 020). Its root is an empty folder: a generator may
 * publish any absolute path. TemporaryFileSystem=/ has no effect: systemd 252 and 257 leave the host's root in place.
 */
import { posix } from "node:path";
import { contentInside, statsName } from "../../../service/builder/build/content.ts";
import { kinds } from "../../../service/builder/build/dependencies.ts";
import type { HostFile } from "../../apply/layer.ts";
import { isReported, type SiteHook } from "../../config/derived.ts";
import { bounds, instanceFile, ownRoot, sandbox, unitFile, unitWord, type Values } from "../kit.ts";
import { builderUser, generatorUser, paths, runFolders, units } from "../paths.ts";
import { toolsOf } from "../tools/tools.ts";
import * as generator from "./hugo.ts";

const inside = { source: "/source", content: contentInside, destination: "/out", cache: "/cache" } as const;

/** What the unit runs: generator.sh. */
export const startProgram = `${paths.lib}/generator` as const;
/** The system's configuration of the git that the generator runs. */
export const gitConfiguration = `${paths.lib}/generator-gitconfig` as const;
/** In the unit's root: the content folder that root found. */
const noteOfContent = (hook: string) => `/content-of-${hook}` as const;

/** systemd reads quotes, backslashes and percent signs in a value of `Environment=`. */
const assigned = ([name, value]: [string, string]): string =>
  `Environment="${name}=${value.replace(/[\\"]/g, "\\$&").replaceAll("%", "%%")}"`;

const noNetwork = "PrivateNetwork=yes\nRestrictAddressFamilies=none\nIPAddressDeny=any";
const network = `# ${units.egress} limits this to TLS to public addresses.\nRestrictAddressFamilies=AF_INET AF_INET6`;

function contentLines({ name, site: { content } }: SiteHook) {
  if (content === undefined) return { finding: "", content: "" };
  const unit = units.content(name);
  return {
    finding: `Wants=${unit}\nAfter=${unit}`,
    content: [
      `# systemd follows links in this path; ExecStart= compares the folder with the one that ${unit} found.`,
      `BindReadOnlyPaths=-${unitWord(content)}:/content`,
    ].join("\n"),
  };
}

/** A socket, of the generator or another unit, whose connections each start an instance of a service: `most` at once. */
export const socketUnit = (hook: string, unit: string, values: Values): HostFile =>
  unitFile(import.meta.url, unit, { hook, target: units.site(hook), ...values }, "pushgate-connection.socket");

/** The generator's units, the fetcher's socket, and the units with which the builder ends both. */
export function generatorFiles(hook: SiteHook): HostFile[] {
  const { name, site } = hook;
  const own = runFolders(name);
  const user = builderUser(name);
  const { sites, spool, requests, rootRequests, reports } = paths;
  const members = [spool, requests, rootRequests, ...(isReported(hook) ? [reports] : [])];
  const folders = [`${sites}/${name}/work`, ...members.map((path) => `${path}/${name}`)].join(" ");
  const ended = [units.generator(name, "*"), units.fetcher(name, "*")];
  const ofStop = { does: "ends generator and fetcher", socket: `${own.socket}.stop`, user, most: 4 };
  const stop = { hook: name, folders, units: ended, sandbox: sandbox("helper") };
  const find = `${startProgram} find-content ${unitWord(site.content ?? "")} ${own.generatorRoot}${noteOfContent(name)}`;
  return [
    ...instanceFile(units.content(name), site.content === undefined ? [] : ["[Service]", `ExecStart=${find}`]),
    socketUnit(name, units.generatorSocket(name), { does: "starts the generator", socket: own.socket, user, most: 1 }),
    socketUnit(name, units.fetcherSocket(name), { does: "starts the fetcher", socket: own.fetcher, user, most: 1 }),
    generatorService(hook),
    socketUnit(name, units.stopSocket(name), ofStop),
    unitFile(import.meta.url, units.stop(name), stop, "pushgate-stop@.service"),
  ];
}

function generatorService(hook: SiteHook): HostFile {
  const { name, site, previews } = hook;
  const { folder, writers, content, limits } = site;
  const { generatorRoot, result } = runFolders(name);
  // Beside the distribution.
  const more = [
    ...toolsOf(site).map(({ folder }) => folder),
    startProgram,
    ...(generator.runsPrograms(hook) ? ["-/etc/alternatives", "-/usr/local/bin", "-/usr/local/lib/node_modules"] : []),
    ...(generator.readsWeb(hook) ? ["-/etc/hosts", "-/etc/resolv.conf", "-/etc/ssl/certs"] : []),
  ];
  const [source, work] = [posix.join(inside.source, folder ?? ""), `${paths.sites}/${name}/work`];
  // Of what was fetched, into the source: the builder makes the mount points.
  // Each path in quotes of its own: systemd finds no colon between quotes.
  const mounts = Object.entries(kinds).map(
    ([kind, { place }]) => `BindReadOnlyPaths=-${work}/dependencies/${kind}/${place}:${unitWord(`${source}/${place}`)}`,
  );
  const environment = generator.environment({ ...inside, content: content && inside.content }, site);
  const given = [content === undefined ? "" : noteOfContent(name), previews === undefined ? "" : generator.address];
  const command = [startProgram, "build", ...[...given, inside.cache, generator.program(hook)].map(unitWord)];
  const opensGroup = writers !== undefined && content !== undefined;
  const values = {
    ...{ hook: name, target: units.site(name), bounds: bounds(limits) },
    ...contentLines(hook),
    command: [...command, ...generator.buildArguments(site.hugo.arguments)],
    ...{ source: unitWord(source), stats: statsName, user: generatorUser(name) },
    ...{ root: ownRoot(generatorRoot), result, work, gitConfiguration },
    environment: Object.entries(environment).map(assigned).join("\n"),
    groups: opensGroup
      ? `# For content that only the group of \`site.writers\` may read.\nSupplementaryGroups=${writers}`
      : "",
    more: more.map((path) => `BindReadOnlyPaths=${path}`).join("\n"),
    dependencies: mounts.join("\n"),
    network: generator.readsWeb(hook) ? network : noNetwork,
    sandbox: sandbox("generator"),
  };
  return unitFile(import.meta.url, units.generator(name), values, "pushgate-generator@.service");
}
