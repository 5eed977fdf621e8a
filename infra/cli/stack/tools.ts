/** Writes what a site needs into the stack file: releases of programs, with their digests, and what its repository says. */
import { feedHost, runOnHost, type Target } from "../../apply/run-on-host.ts";
import type { Site } from "../../config/settings.ts";
import { type Architecture, archiveUrl, releasesOf, tools as table } from "../../config/tools.ts";
import { paths } from "../../host/paths.ts";
import { toolFolder } from "../../host/tools/tools.ts";
import { UserError } from "../../user-error.ts";
import { all, command, confirm, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { must, readStack } from "../stack.ts";
import { type Entry, entriesOf, proposals } from "./repository/proposal.ts";
import { download, seconds } from "./repository/releases.ts";

function named(word: string) {
  const [, tool = "", value = ""] = /^(\w+)=(\d+\.\d+\.\d+)$/.exec(word) ?? [];
  if (Object.hasOwn(table, tool)) return { key: `tools.${tool}`, value, says: "" };
  throw new UserError(
    `"${word}" is no release. Use ${Object.keys(table).join(", ")} with three numbers, such as hugo=0.152.2.`,
  );
}

/** For a host that cannot reach the release's page: the tools layer then finds the archives beside its folders. */
async function send(host: Target, site: Pick<Site, "tools" | "mirror">): Promise<string> {
  const named = releasesOf(site);
  const look = named.map(({ id }) => `[ -e ${toolFolder(id)} ] || echo ${id}`);
  const answer = await runOnHost(host, ["dpkg --print-architecture", ...look].join("\n"), 20);
  const [found = "", ...missing] = answer.split("\n");
  for (const { tool, release, id } of named.filter(({ id }) => missing.includes(id))) {
    const architecture = found as Architecture;
    const sum = release[architecture];
    if (sum === undefined)
      throw new UserError(`${host.name}: no archive of ${id} is for ${found}. Remove it from site.tools.`);
    const receive = `mkdir -p ${paths.tools} && cd ${paths.tools} && cat >.sending
echo "${sum}  .sending" | sha256sum --check --status && exec mv -fT .sending .sent-${sum}
rm -f .sending; echo "pushgate: ${id} arrived damaged, or is another archive than site.tools names." >&2; exit 1`;
    await feedHost(host, receive, download(archiveUrl(tool, release.version, architecture, site.mirror)), seconds);
  }
  return `${host.name}: ${missing.length > 0 ? `got ${missing.join(", ")}. Next: npx pulumi up` : "has all of them"}`;
}

export const tools = command({
  takes: ["host", "yes"],
  examples: [
    ["tools site", "reads the repository, and proposes what the site needs"],
    ["tools site --check", "exits 0 if the stack file has all of that, 7 if not"],
    ["tools site hugo=0.152.2 sass=1.89.2", "names these, with the digests that their projects publish"],
    ["tools site --send", "sends them from this computer to hosts that cannot download them"],
  ],
})
  .option("--check", "change nothing")
  .option("--send", "send the archives to each host that lacks them")
  .action(async (name: string, words: readonly string[], options: Options & { send?: boolean; check?: boolean }) => {
    const stack = ofStack(options);
    const { hosts, hooks } = await readStack(stack);
    const { site } = siteNamed(hooks, name);
    const given = words.map(named);
    if (options.send)
      return console.log((await all(targets(hosts, options).map((host) => send(host, site)))).join("\n"));
    const index = hooks.findIndex((hook) => hook.name === name);
    const missing = words.length > 0 ? given : await proposals(hooks[index]!, site);
    if (words.length === 0) {
      if (options.check) process.exitCode = missing.length > 0 ? 7 : 0;
      if (options.check || missing.length === 0) return;
      await confirm("Write the lines that begin with + into the stack file?", options);
    }
    const { entries, failed } = await entriesOf(missing, site);
    if (words.length > 0 && failed.length > 0) throw new UserError(failed.join("\n"));
    await write(entries, `pushgate:hooks[${index}].site`, stack);
    const versions = entries.flatMap(([[, tool, key], version]) => (key === "version" ? [[tool, { version }]] : []));
    const now = { ...site.tools, ...Object.fromEntries(versions) };
    const lines = releasesOf({ tools: now }).map(({ tool, release }) => `  ${tool} ${release.version}`);
    console.log(`${name} is built with\n${lines.join("\n") || "  the distribution's programs"}`);
    if (failed.length > 0) throw new UserError(failed.join("\n"));
    if (entries.length > 0) console.log("Next: npx pulumi up");
  });

/** A text of digits would become a number in `set-all`, so variables are written one by one. */
async function write(entries: readonly Entry[], at: string, stack: readonly string[]): Promise<void> {
  const keyOf = ([path]: Entry) =>
    path.reduce<string>((key, name) => key + (typeof name === "number" ? `[${name}]` : `.${name}`), at);
  const areVariables = Map.groupBy(entries, ([path]) => path[1] === "variables");
  const pairs = (areVariables.get(false) ?? []).flatMap((entry) => ["--plaintext", `${keyOf(entry)}=${entry[1]}`]);
  if (pairs.length > 0) await must(["config", "set-all", "--path", ...stack, ...pairs]);
  for (const entry of areVariables.get(true) ?? [])
    await must(["config", "set", "--path", "--type", "string", ...stack, "--", keyOf(entry), String(entry[1])]);
}
