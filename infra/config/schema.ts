/**
 * The shape of the stack configuration, key by key, with the words a person reads when a value does not fit. Only
 * shapes live here; what one key means for another is checked in checks.ts.
 */
import { isIPv4, isIPv6 } from "node:net";
import * as v from "valibot";
import { faultOf } from "./cidr.ts";

/** What the zone pays for; "enterprise-bots" is Enterprise with the Bot Management add-on. */
const plans = ["free", "pro", "business", "enterprise", "enterprise-bots"] as const;
const gitHosts = ["github", "gitlab", "bitbucket", "gitea", "forgejo"] as const;

const configurationNames = ["config", "hugo"].flatMap((name) =>
  ["json", "toml", "yaml", "yml"].map((form) => `${name}.${form}`),
);

/** Paths whose change builds. One that ends in a slash is a folder and everything below it; `*` stands for anything within a segment. Sorted. */
export const buildPaths: string[] = [
  "_vendor/",
  "archetypes/",
  "assets/",
  "bin/deploy*",
  "config/",
  ...configurationNames,
  "data/",
  "deploy*",
  "go.mod",
  "go.sum",
  "i18n/",
  "layouts/",
  "package.hugo.json",
  "scripts/deploy*",
  "static/",
  "themes/",
  ".gitmodules",
].sort();

/** Files that outlive their release, as pages still open refer to them. Pages are not among them. */
export const assetExtensions: string[] = [
  "avif",
  "css",
  "eot",
  "gif",
  "ico",
  "jpeg",
  "jpg",
  "js",
  "map",
  "mjs",
  "otf",
  "png",
  "svg",
  "ttf",
  "wasm",
  "webp",
  "woff",
  "woff2",
];

const text = (what: string) => v.pipe(v.string(`write ${what}`), v.nonEmpty(`is empty: write ${what}`));

const oneOf = <const T extends readonly string[]>(values: T) => v.picklist(values, `write one of ${values.join(", ")}`);

/** A DNS name in lower case: labels of letters, digits and inner hyphens, at least two of them. */
const dnsName = (what: string) =>
  v.pipe(
    text(what),
    v.maxLength(253, "is longer than 253 characters, DNS's limit"),
    v.regex(
      /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
      `is not a DNS name in lower case: write ${what}`,
    ),
  );

/** A unit name's part and a path's segment; 32 characters, as user names allow. */
const slug = (what: string) =>
  v.pipe(
    text(what),
    v.regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, `use 1 to 32 of a-z, 0-9 and inner hyphens: it becomes ${what}`),
  );

const whole = (min: number, max: number, unit: string) => {
  const say = `write a whole number of ${unit} from ${min} to ${max}`;
  return v.pipe(v.number(say), v.integer(say), v.minValue(min, say), v.maxValue(max, say));
};

const absolute = (what: string) =>
  v.pipe(
    text(what),
    v.regex(
      /^\/(?!.*(\/\/|\/\.\.?(\/|$)))[^\s"'\\$;{}]*[^\s"'\\$;{}/]$/,
      `write ${what} as an absolute path without "..", spaces or quotes`,
    ),
  );

const port = whole(1, 65535, "a TCP port");

const host = v.strictObject({
  name: slug("part of resource names"),
  ssh: v.pipe(
    text("what ssh is given, such as root@web1.example.org"),
    v.regex(
      /^[A-Za-z0-9._@:[\]%-]+$/,
      "holds a character ssh targets don't have: put options into ~/.ssh/config and its alias here",
    ),
    // A leading hyphen would be read by ssh as an option, ProxyCommand among them.
    v.check((value) => !value.startsWith("-"), "starts with a hyphen, which ssh would read as an option"),
  ),
  sudo: v.optional(v.boolean("write true or false"), false),
  address: v.pipe(
    text("the origin's public IPv4 address"),
    v.check(isIPv4, "is not an IPv4 address; an IPv6 one goes into address6"),
  ),
  address6: v.exactOptional(
    v.pipe(text("the origin's public IPv6 address"), v.check(isIPv6, "is not an IPv6 address")),
  ),
  hostname: dnsName("a name for hooks only, such as hooks.example.org"),
  originPort: v.optional(port, 8443),
  state: v.optional(oneOf(["present", "absent", "lost"]), "present"),
});

const source = v.pipe(
  text("a range in CIDR notation"),
  v.rawCheck(({ dataset, addIssue }) => {
    const fault = dataset.typed ? faultOf(dataset.value) : undefined;
    if (fault) addIssue({ message: fault });
  }),
);

/** Below a folder, and it stays there. */
const below = (what: string) =>
  v.pipe(
    text(what),
    v.regex(
      /^(?!.*(^|\/)\.\.?(\/|$))[^/\s"'\\$;{}][^\s"'\\$;{}]*$/,
      `write ${what}, without a leading slash, "..", spaces or quotes`,
    ),
  );

const list = <T extends v.GenericSchema>(items: T, what: string) => v.array(items, `write a list of ${what}`);

const hugo = v.strictObject({
  path: v.optional(absolute("hugo's path"), "/usr/bin/hugo"),
  // Debian 12's.
  minimum: v.optional(
    v.pipe(text("a version"), v.regex(/^\d+\.\d+(\.\d+)?$/, "write a version such as 0.111.3")),
    "0.111.3",
  ),
  exec: v.optional(list(text("a regular expression of program names"), "programs a build may run"), []),
  http: v.optional(list(text("a regular expression of addresses"), "addresses a build may read"), []),
});

const site = v.strictObject({
  webRoot: absolute("the folder the web server serves"),
  content: absolute("the content folder, outside the clone"),
  hostname: v.exactOptional(dnsName("the published site's name, such as www.example.org")),
  keep: v.optional(
    list(
      // A kept path is one thing, a folder or a file: a slash at its end says no more.
      v.pipe(
        below("a path in webRoot"),
        v.transform((path) => path.replace(/\/+$/, "")),
      ),
      "paths in webRoot",
    ),
    [],
  ),
  paths: v.optional(
    v.pipe(list(below("a path in the repository"), "paths"), v.minLength(1, "is empty: no push would build")),
    buildPaths,
  ),
  assets: v.optional(
    list(v.pipe(text("an extension"), v.regex(/^[a-z0-9]{1,10}$/, "write an extension such as css")), "extensions"),
    assetExtensions,
  ),
  submodules: v.optional(v.boolean("write true or false"), false),
  knownHosts: v.optional(
    list(
      v.pipe(
        text("a line of ssh's known_hosts"),
        v.regex(
          /^[^\s#|@][^\s]* (ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,2}$/,
          "write a line as ssh-keyscan prints it: name, key type, key",
        ),
      ),
      "ssh host keys",
    ),
    [],
  ),
  egress: v.optional(list(source, "ranges"), []),
  writers: v.exactOptional(
    v.pipe(text("a group of the machine"), v.regex(/^[a-z_][a-z0-9_-]{0,30}$/, "is not a group's name")),
  ),
  hugo: v.optional(hugo, {}),
  // 15 minutes: as long as a delivery that never came stays unpublished.
  reconcileMinutes: v.optional(whole(1, 60, "minutes"), 15),
  limits: v.optional(
    v.strictObject({
      memoryMiB: v.optional(whole(128, 65_536, "MiB"), 1024),
      cpuPercent: v.optional(whole(10, 6_400, "percent of one processor"), 200),
      tasks: v.optional(whole(16, 4_096, "processes and threads"), 256),
      seconds: v.optional(whole(10, 7_200, "seconds"), 600),
      releaseMiB: v.optional(whole(1, 1_048_576, "MiB"), 2048),
      // A site that lost half of its pages has lost its content, more likely than its author's interest.
      pagesPercent: v.optional(whole(0, 100, "percent of the last release's pages"), 50),
    }),
    {},
  ),
});

const hook = v.strictObject({
  name: slug("the last segment of /webhook/<name>"),
  gitHost: oneOf(gitHosts),
  sources: v.exactOptional(
    v.pipe(v.array(source, "write a list of ranges"), v.minLength(1, "is empty: nobody could deliver")),
  ),
  repository: v.pipe(
    text("the repository's address"),
    v.regex(
      /^(https:\/\/[A-Za-z0-9.-]+(:\d+)?\/[\w./~-]+|ssh:\/\/[\w.-]+@[A-Za-z0-9.-]+(:\d+)?\/[\w./~-]+|[\w.-]+@[A-Za-z0-9.-]+:[\w./~-]+)$/,
      "write an https:// or ssh address without credentials: anything rendered is public",
    ),
  ),
  // git check-ref-format's rules, without the exotic rest.
  branch: v.pipe(
    text("the branch that is published"),
    v.regex(
      /^(?![-/.])(?!.*(\.\.|\/\/|\/\.|@\{|\.lock(\/|$)))[A-Za-z0-9._/@+-]{1,200}(?<![/.])$/,
      "is not a branch name git accepts",
    ),
  ),
  site: v.exactOptional(site),
});

/** Strict at every level: an unknown key is a misspelt one, and a misspelt limit would silently not limit. */
export const shape = v.strictObject({
  zone: dnsName("the zone's name, such as example.org"),
  edge: v.strictObject({
    plan: oneOf(plans),
    botFightMode: v.exactOptional(v.picklist(["off"], 'write "off", or leave it out: pushgate never switches it on')),
    generation: v.optional(whole(1, 1_000_000, "a generation"), 1),
    canary: v.exactOptional(v.boolean("write true or false")),
  }),
  hosts: v.pipe(v.array(host, "write a list of hosts"), v.minLength(1, "is empty: name at least one host")),
  hooks: v.pipe(v.array(hook, "write a list of hooks"), v.minLength(1, "is empty: name at least one hook")),
  limits: v.strictObject({
    // 5 MiB: pushes of up to 457 kB were seen, and GitHub itself stops at 25 MB.
    bodyBytes: v.optional(whole(1 << 10, 25 << 20, "bytes"), 5 << 20),
    refusalsPerMinute: v.optional(whole(1, 10_000, "refusals a minute"), 60),
    concurrentPerSource: v.optional(whole(1, 1_000, "open requests"), 32),
    // GitHub sends everybody's deliveries from few addresses: sized for a burst of real pushes, not for one user's.
    proxyRate: v.optional(whole(1, 10_000, "requests a second"), 200),
    proxyBurst: v.optional(whole(0, 100_000, "requests"), 500),
  }),
});

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** As written, with the defaults filled in. */
export type Config = Frozen<v.InferOutput<typeof shape>>;
export type Edge = Config["edge"];
export type Plan = Edge["plan"];
export type Host = Config["hosts"][number];
export type Limits = Config["limits"];
export type GitHost = Config["hooks"][number]["gitHost"];

export type Hook = Omit<Config["hooks"][number], "sources"> & {
  /** Whether the git host publishes its ranges. */
  readonly published: boolean;
  /** CIDRs that may deliver: sorted, without overlaps, never empty. */
  readonly sources: readonly string[];
};
export type Site = NonNullable<Hook["site"]>;

/** What every layer is rendered from. No secret is in it, so whatever is rendered is public. */
export type Settings = Omit<Config, "hooks"> & { readonly hooks: readonly Hook[] };
