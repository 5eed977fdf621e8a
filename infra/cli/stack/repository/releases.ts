/** What the pages of programs say: digests of a release's archives, and which release is the newest. */
import { hash } from "node:crypto";
import { buffer, text } from "node:stream/consumers";
import { type Architecture, archiveUrl, isOlder, type Release, type ToolName, tools } from "../../../config/tools.ts";
import { UserError } from "../../../user-error.ts";
import type { Wanted } from "./propose.ts";

const mostBytes = 256 << 20; // as on a host
export const seconds = 300;

function fail(url: string, error: unknown): never {
  if (error instanceof UserError) throw error;
  const { message, cause } = error as Error;
  throw new UserError(`${url} was not downloaded: ${(cause as Error | undefined)?.message ?? message}`);
}

async function answerOf(url: string): Promise<Response> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(seconds * 1000) }).catch((error) => fail(url, error));
  if (answer.ok && answer.url.startsWith("https:")) return answer;
  throw new UserError(`${url} is answered ${answer.status}. Name a release that is published there.`);
}

/** The parts of a file, as they come. */
export async function* download(url: string): AsyncGenerator<Uint8Array> {
  try {
    let bytes = 0;
    for await (const part of (await answerOf(url)).body ?? []) {
      bytes += part.length;
      if (bytes > mostBytes) throw new UserError(`${url} has more than ${mostBytes >> 20} MiB.`);
      yield part;
    }
  } catch (error) {
    fail(url, error);
  }
}

/** Hugo's and Sass's pages redirect to it. Node's lists all, the newest first; lines of even numbers are supported for long. */
async function chosen(tool: ToolName, { line = "\\d*[02468]", least = "0", isLeast }: Wanted): Promise<string> {
  if (isLeast) return least;
  const page = tools[tool].newest;
  const said = tool === "node" ? await text(download(page)) : `${(await answerOf(page)).url}"`;
  const [, found] = new RegExp(`[/"]v?(${tool === "node" ? line : "\\d+"}\\.\\d+\\.\\d+)"`).exec(said) ?? [];
  if (found && !isOlder(found, least)) return found;
  throw new UserError(`${page} names no fitting release. Name one: npx pushgate tools <hook> ${tool}=<release>`);
}

/** The release that a person or a site names, or one that fits, with its digests. */
export async function releaseOf(tool: ToolName, named: string | true | Wanted): Promise<Release> {
  const version = typeof named === "object" ? await chosen(tool, named) : String(named);
  const { page, archive, digests } = tools[tool];
  const listed = digests && `${page(version)}/${digests(version)}`;
  const list = listed && (await text(download(listed)));
  const of = async (architecture: Architecture): Promise<string> => {
    // Without a list, the archives of this moment are those that every host will have.
    if (list === undefined) return hash("sha256", await buffer(download(archiveUrl(tool, version, architecture))));
    const name = archive(version, architecture);
    const line = list.split("\n").find((line) => line.endsWith(` ${name}`));
    const [digest] = /^[0-9a-f]{64}(?= )/.exec(line ?? "") ?? [];
    if (digest === undefined) throw new UserError(`${listed} has no SHA-256 of ${name}. Name another release.`);
    return digest;
  };
  return { version, amd64: await of("amd64"), arm64: await of("arm64") };
}
