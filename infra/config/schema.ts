/** Every object is strict: an unknown key is a misspelt one, and a misspelt limit would silently not limit. */
import { isIPv4, isIPv6 } from "node:net";
import * as v from "valibot";
import { gitHostNames } from "../../service/git-hosts/index.ts";
import { amount, receiverLimits } from "../../service/limits.ts";
import { webhookPath } from "../contract.ts";
import { branchFault, repositoryFault, sshFault } from "./forms.ts";
import { site } from "./site-schema.ts";
import { boolean, checked, described, dnsName, judged, named, object, oneOf, range, slug, some } from "./values.ts";

const host = object({
  name: slug("Name of the host; part of resource names."),
  ssh: judged(sshFault, "user@host, an alias of ~/.ssh/config, or ssh://user@host:port", "Where `ssh` finds the host."),
  sudo: v.optional(boolean("Run commands as root through `sudo -n`, where the login is not root."), false),
  address: checked(isIPv4, "an IPv4 address, not IPv6", "Public IPv4 address, for DNS; behind NAT, the router's."),
  address6: v.exactOptional(checked(isIPv6, "an IPv6 address", "Public IPv6 address, for DNS.")),
  hostname: dnsName("hooks.example.org", "Hostname for hooks only: Cloudflare blocks everything else there."),
  originPort: amount(1, 65_535, 8443, "a TCP port", "Port for Cloudflare alone. A change of it rejects no delivery."),
  state: v.optional(oneOf(["present", "absent", "lost"], "`absent` removes all; `lost` skips a dead host."), "present"),
});

export const repositoryShape = judged(
  repositoryFault,
  "an https:// or SSH address without a password or token: rendered files are public",
  "Address of the repository.",
);

export const hookName = slug(`Last segment of the path \`${webhookPath("<name>")}\`.`);

const hook = object({
  name: hookName,
  gitHost: oneOf(gitHostNames, "Git host that delivers; `github`, `gitlab` and `bitbucket` are the public services."),
  sources: v.exactOptional(some(range, "source range", "Source ranges of a git host whose ranges pushgate lacks.")),
  repository: repositoryShape,
  branch: judged(branchFault, "a branch name that git accepts, such as main", "Branch that is published at `webRoot`."),
  site: v.exactOptional(described(site, "Website that a push becomes; without it, deliveries stay in the spool.")),
});

const edge = object({
  plan: oneOf(
    ["free", "pro", "business", "enterprise", "enterprise-bots"],
    "What the zone pays for; `enterprise-bots` is Enterprise with the Bot Management add-on.",
  ),
  botFightMode: v.exactOptional(
    oneOf(["off"], "Free plan: switch Bot Fight Mode off for the whole zone.", "off, or leave it out"),
  ),
  generation: amount(1, 1_000_000, 1, "a whole number", "Raise it to renew Cloudflare's client certificate."),
  canary: v.exactOptional(boolean("Request the canary in `up` and `preview`; by default, if the API is Cloudflare's.")),
});

const limits = object({
  ...receiverLimits.entries,
  // Not of the git host's own: its customers share them (docs/decisions/005).
  proxyRate: amount(1, 10_000, 200, "a whole number", "Requests a second from one address that is not the git host's."),
  proxyBurst: amount(0, 100_000, 500, "a whole number", "Requests above proxyRate that nginx passes on without delay."),
});

export const shape = object({
  zone: dnsName("example.org", "Name of the zone at Cloudflare."),
  edge: described(edge, "The zone's plan, and choices at Cloudflare."),
  hosts: some(host, "host", "Hosts that receive deliveries; each serves all sites."),
  hooks: some(hook, "hook", "Endpoints that git hosts deliver pushes to."),
  limits: v.optional(described(limits, "Limits for deliveries."), {}),
});

/** The receiver reads one secret a line, and a git host's form field may trim. */
const secret = (least: number, most: number, form: string, description: string) =>
  v.pipe(
    v.string(),
    v.minLength(least, `has fewer than ${least} characters`),
    v.maxLength(most, `has more than ${most} characters`),
    v.regex(/^[\x21-\x7e]+$/, "contains white space or a character outside ASCII"),
    v.metadata({ form, description }),
  );

/** A shorter secret can be guessed; 32 characters of base64 are 192 bits. */
const hookSecret = (description: string) => secret(32, 512, "32 to 512 ASCII characters without spaces", description);

export const hookSecrets = object({
  current: hookSecret("Secret that the git host signs deliveries with."),
  previous: v.exactOptional(hookSecret("Former secret, still accepted. Remove it once the git host uses `current`.")),
  deployKey: v.exactOptional(described(v.string(), "Private key with which the builder reads a repository over SSH.")),
  status: v.exactOptional(
    secret(20, 1024, "the token as the git host shows it", "Token for results on commits; see `npx pushgate hook`."),
  ),
  notify: named(
    secret(16, 1024, "16 to 1024 ASCII characters without spaces", ""),
    "an object of names of recipients and their secrets",
    "For each recipient of `site.notify`: the rest of the URL of a webhook of Slack, Discord or Mattermost; the token of Matrix or ntfy; the key of Standard Webhooks, `whsec_` and base64.",
  ),
  purge: v.exactOptional(
    secret(
      20,
      1024,
      "a token of Cloudflare for the zone, with Zone > Cache Purge > Purge alone",
      "Token with which `site.purge` purges Cloudflare's cache. It stays on the hosts, so it must not be cloudflare:apiToken.",
    ),
  ),
});

/** As written. */
export type HookSecrets = v.InferInput<typeof hookSecrets>;

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** As written, with the defaults filled in. */
export type Config = Frozen<v.InferOutput<typeof shape>>;
export type Placed<T> = T & { readonly at: string };
/** What fits of a configuration: the shapes of the others have faults of their own. An unknown zone is "". */
export type Parts = Pick<Config, "zone" | "edge"> & {
  readonly hosts: readonly Placed<Host>[];
  readonly hooks: readonly Placed<Config["hooks"][number]>[];
};
export type Edge = Config["edge"];
export type Plan = Edge["plan"];
export type Host = Config["hosts"][number];

export type Hook = Omit<Config["hooks"][number], "sources"> & {
  readonly sources: readonly string[]; // CIDRs that may deliver: sorted, without overlaps, never empty
  readonly setsStatus?: true; // whether `secrets.<hook>.status` is given: the result of a build is set on its commit
};
export type Site = NonNullable<Hook["site"]>;

/** The input of every renderer. It holds no secret, so all rendered files are public. */
export type Settings = Omit<Config, "hooks"> & { readonly hooks: readonly Hook[] };
