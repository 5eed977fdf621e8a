/** Writes the releases of a site's programs, with the digests that each project publishes, into the stack file. */
import { createHash } from "node:crypto";
import { text } from "node:stream/consumers";
import { feedHost, runOnHost, type Target } from "../../apply/run-on-host.ts";
import type { Site } from "../../config/settings.ts";
import {
  type Architecture,
  archiveUrl,
  type Release,
  releasesOf,
  type ToolName,
  tools as table,
} from "../../config/tools.ts";
import { paths } from "../../host/paths.ts";
import { toolFolder } from "../../host/tools/tools.ts";
import { UserError } from "../../user-error.ts";
import { all, command, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { must, readStack } from "../stack.ts";

const mostBytes = 256 << 20; // as on a host
const seconds = 300;

/** The parts of a file, as they come. */
async function* download(url: string): AsyncGenerator<Uint8Array> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(seconds * 1000) });
    if (!answer.ok || !answer.url.startsWith("https:"))
      throw new UserError(`${url} is answered ${answer.status}. Name a release that is published there.`);
    let bytes = 0;
    for await (const part of answer.body ?? []) {
      bytes += part.length;
      if (bytes > mostBytes) throw new UserError(`${url} has more than ${mostBytes >> 20} MiB.`);
      yield part;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    const { message, cause } = error as Error;
    throw new UserError(`${url} was not downloaded: ${(cause as Error | undefined)?.message ?? message}`);
  }
}

async function sha256(url: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of download(url)) hash.update(part);
  return hash.digest("hex");
}

async function digestsOf(tool: ToolName, version: string): Promise<Release> {
  const { page, archive, digests } = table[tool];
  const listed = digests && `${page(version)}/${digests(version)}`;
  const list = listed && (await text(download(listed)));
  const of = async (architecture: Architecture): Promise<string> => {
    // Without a list, the archives of this moment are those that every host will have.
    if (list === undefined) return sha256(archiveUrl(tool, { version }, architecture));
    const name = archive(version, architecture);
    const line = list.split("\n").find((line) => line.endsWith(` ${name}`));
    const [digest] = /^[0-9a-f]{64}(?= )/.exec(line ?? "") ?? [];
    if (digest === undefined) throw new UserError(`${listed} has no SHA-256 of ${name}. Name another release.`);
    return digest;
  };
  const [amd64, arm64] = [await of("amd64"), await of("arm64")];
  return { version, amd64, arm64 };
}

function named(word: string): [ToolName, string] {
  const [, tool = "", version = ""] = /^(\w+)=(\d+\.\d+\.\d+)$/.exec(word) ?? [];
  if (Object.hasOwn(table, tool)) return [tool as ToolName, version];
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
    await feedHost(host, receive, download(archiveUrl(tool, release, architecture, site.mirror)), seconds);
  }
  return `${host.name}: ${missing.length > 0 ? `got ${missing.join(", ")}. Next: npx pulumi up` : "has all of them"}`;
}

export const tools = command({
  takes: ["host"],
  examples: [
    ["tools site", "the releases that the site names"],
    ["tools site hugo=0.152.2 sass=1.89.2", "names these, with the digests that their projects publish"],
    ["tools site --send", "sends them from this computer to hosts that cannot download them"],
  ],
})
  .argument("<hook>")
  .argument("[release...]")
  .option("--send", "send the archives to each host that lacks them")
  .action(async (name: string, words: readonly string[], options: Options & { send?: boolean }) => {
    const stack = ofStack(options);
    const { hosts, hooks } = await readStack(stack);
    const { site } = siteNamed(hooks, name);
    const wanted = words.map(named);
    if (options.send)
      return console.log((await all(targets(hosts, options).map((host) => send(host, site)))).join("\n"));
    const at = `pushgate:hooks[${hooks.findIndex((hook) => hook.name === name)}].site.tools`;
    const found = await all(wanted.map(async ([tool, version]) => ({ tool, release: await digestsOf(tool, version) })));
    const values = found.flatMap(({ tool, release }) =>
      Object.entries(release).flatMap(([key, value]) => ["--plaintext", `${at}.${tool}.${key}=${value}`]),
    );
    if (values.length > 0) await must(["config", "set-all", "--path", ...stack, ...values]);
    const now = { ...site.tools, ...Object.fromEntries(found.map(({ tool, release }) => [tool, release])) };
    const lines = releasesOf({ tools: now }).map(({ tool, release }) => `  ${tool} ${release.version}`);
    console.log(
      [`${name} is built with`, ...(lines.length > 0 ? lines : ["  the distribution's programs"])].join("\n"),
    );
    if (values.length > 0) console.log("Next: npx pulumi up");
  });
