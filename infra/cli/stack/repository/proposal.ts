/** What a site's repository proposes for it: read, compared with the stack file, and as values for that file. */
import * as v from "valibot";
import { repositoryOf } from "../../../../service/git-hosts/repository.ts";
import type { Hook, Site } from "../../../config/schema.ts";
import { site as siteShape } from "../../../config/site-schema.ts";
import { isOlder, type ToolName } from "../../../config/tools.ts";
import { orUserError, UserError } from "../../../user-error.ts";
import { type Finding, findingsOf } from "./propose.ts";
import { type Files, readFiles } from "./read.ts";
import { below } from "./recipes.ts";
import { releaseOf } from "./releases.ts";

const least = { webRoot: "/var/www/site" };
/** As for a site that has no other key yet. */
export const nothing: Site = v.parse(siteShape, least);
type Proposal = Finding & { readonly isSet: boolean };

/** Prints what is found, and returns what is missing. Throws a UserError where git cannot read the repository. */
export async function proposals({ repository, branch }: Pick<Hook, "repository" | "branch">, site: Site) {
  const files = await readFiles(repository, branch);
  const first = findingsOf(files, site);
  const isNamed = first.some(({ key, value }) => key === "tools.hugo" && typeof value === "string");
  // A theme says which release it needs at least.
  const found = isNamed ? first : findingsOf(files, site, await themesIn(files));
  const all = found.map(({ key, value, says }): Proposal => {
    if (key === undefined || value === undefined) return { says, isSet: true };
    return isAccepted(key, value)
      ? { key, value, says, isSet: hasAlready(site, key, value) }
      : { says: `${key}: ${value} is not accepted (${says})`, isSet: true };
  });
  console.log([`${repository}, branch ${branch}:`, ...all.map(lineOf)].join("\n"));
  return all.filter(({ isSet }) => !isSet);
}

/** The submodules below `themes`, at their commits. One that cannot be read says nothing. */
async function themesIn({ texts, links }: Files): Promise<Map<string, Files>> {
  const modules = (texts.get(".gitmodules") ?? "").split("[submodule ").map((text) => {
    const of = (key: string) => new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*(\\S+)`, "m").exec(text)?.[1] ?? "";
    return { path: of("path"), url: repositoryOf(of("url")) };
  });
  const themes = modules.filter(({ path, url }) => /(^|\/)themes\//.test(path) && links.has(path) && url.host !== "");
  const read = themes.slice(0, 3).map(async ({ path, url }) => {
    const files = await orUserError(readFiles(`https://${url.host}/${url.names.join("/")}`, links.get(path)!));
    return files instanceof UserError ? [] : [[path, files] as const];
  });
  return new Map((await Promise.all(read)).flat());
}

/** A repository may hold any text. */
function isAccepted(key: string, value: NonNullable<Finding["value"]>): boolean {
  const at = (name: string, part: unknown) => ({ [name]: name === "arguments" ? [part] : part });
  const part = key.split(".").reduceRight<unknown>((part, name) => at(name, part), value);
  return key.startsWith("tools.") || v.is(siteShape, { ...least, ...(part as object) });
}

function hasAlready(site: Site, key: string, value: Finding["value"]): boolean {
  const now: unknown = below(site, ...key.split("."));
  const version = below(now, "version") ?? "";
  if (typeof value === "object")
    return `${version}.`.startsWith(value.line ? `${value.line}.` : "") && !isOlder(`${version}`, value.least ?? "0");
  if (Array.isArray(now)) return now.includes(value);
  return key === "hugo.baseUrl" ? now !== undefined : (version || now) === value;
}

const lineOf = ({ key, value, says, isSet }: Proposal): string => {
  const proposed = typeof value !== "object" ? value : value.isLeast ? value.least : "the newest release";
  return key === undefined ? `    ${says}` : `  ${isSet ? "=" : "+"} ${key}: ${proposed} (${says})`;
};

export type Entry = readonly [path: readonly (string | number)[], value: string | true];

/** What is missing, for the stack file. `failed`: why a release is left out. */
export async function entriesOf(wanted: readonly Finding[], site: Site) {
  const entries: Entry[] = [];
  const failed: string[] = [];
  let next = site.hugo.arguments.length;
  for (const { key = "", value = "" } of wanted) {
    const path = key === "hugo.arguments" ? ["hugo", "arguments", next++] : key.split(".");
    if (key.startsWith("tools.")) {
      const release = await orUserError(releaseOf(path[1] as ToolName, value));
      if (release instanceof UserError) failed.push(release.message);
      else entries.push(...Object.entries(release).map(([name, text]): Entry => [[...path, name], text]));
    } else if (typeof value !== "object") entries.push([path, value]);
  }
  // npm is a part of Node.
  const hasNode = site.tools.node !== undefined || entries.some(([path]) => path[1] === "node");
  return { entries: entries.filter(([[key]]) => key !== "npm" || hasNode), failed };
}
