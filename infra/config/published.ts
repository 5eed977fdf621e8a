/** The address ranges that their owners publish, beside those of networks.ts. GitLab has a page for people alone. */
import { overlapCidr, parseCidr } from "cidr-tools";
import { exchange } from "../../service/exchange.ts";
import { tried } from "../../service/tried.ts";
import { isV4, networks } from "../networks.ts";
import { UserError } from "../user-error.ts";
import { rangeFault, tidy } from "./cidr.ts";

type Item = { readonly product: readonly string[]; readonly direction: readonly string[]; readonly cidr: string };
type Answer = { result: Record<"ipv4_cidrs" | "ipv6_cidrs", string[]>; hooks: string[]; items: Item[] };

/** Where an owner's answer has them. */
const readers = {
  cloudflare: ({ result }: Answer) => [...result.ipv4_cidrs, ...result.ipv6_cidrs],
  githubHooks: ({ hooks }: Answer) => hooks,
  bitbucketHooks: ({ items }: Answer) =>
    items
      .filter(({ product, direction }) => product.includes("bitbucket") && direction.includes("egress"))
      .map(({ cidr }) => cidr),
};

export type Owner = keyof typeof readers;
export const owners = Object.keys(readers) as readonly Owner[];
export const ownerNames: Readonly<Record<Owner, string>> = {
  cloudflare: "Cloudflare",
  githubHooks: "GitHub",
  bitbucketHooks: "Bitbucket",
};

/** Those whose ranges the hooks' deliveries come from. */
export const ownersOf = (hooks: readonly { readonly gitHost: string }[]): Owner[] =>
  owners.filter((owner) => hooks.some(({ gitHost }) => owner === `${gitHost}Hooks`));

/** Why a range is none that a git host or Cloudflare has. */
function strange(cidr: unknown): boolean {
  if (typeof cidr !== "string" || rangeFault(cidr) !== undefined) return true;
  const least = isV4(cidr) ? 8 : 20; // Cloudflare's widest are a /12 and a /29
  return Number(parseCidr(cidr).prefix) < least || overlapCidr(cidr, [...networks.notPublic.cidrs]);
}

/** What the owner publishes now, sorted and without overlaps. Throws a UserError where that cannot be its list. */
export async function readPublished(owner: Owner, seconds: number): Promise<readonly string[]> {
  const { source, cidrs } = networks[owner];
  const reject = (why: string) => {
    throw new UserError(`${ownerNames[owner]}'s ranges were not compared: ${source} ${why}.`);
  };
  const asked = exchange({ url: source, headers: { accept: "application/json" } }, { seconds, bytes: 8 << 20 });
  const { status, text } = await asked.catch(({ message }: Error) => reject(`cannot be read: ${message}`));
  if (status !== 200) reject(`has the status ${status}`);
  const found: unknown = tried(() => readers[owner](JSON.parse(text)));
  if (!Array.isArray(found)) return reject("has no list where it has been");
  const wrong = found.filter(strange);
  if (wrong.length > 0) reject(`names ${JSON.stringify(wrong[0])}, which is no range of public addresses`);
  const published = tidy(found);
  if (2 * cidrs.filter((cidr) => published.includes(cidr)).length < cidrs.length)
    reject("lacks more than half of those of networks.ts. Compare them yourself");
  return published;
}

/** Ranges that the owner publishes and networks.ts lacks, and the reverse. */
export function compared(owner: Owner, published: readonly string[]) {
  const committed: readonly string[] = networks[owner].cidrs;
  return {
    missing: published.filter((cidr) => !committed.includes(cidr)),
    gone: committed.filter((cidr) => !published.includes(cidr)),
  };
}
