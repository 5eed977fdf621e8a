/** Stack configuration -> Settings, once, with every fault and its cure in one error. */

export const plans = ["free", "pro", "business", "enterprise", "enterprise-bots"] as const;
/** What the zone pays for; "enterprise-bots" is Enterprise with the Bot Management add-on. */
export type Plan = (typeof plans)[number];

export const gitHosts = ["github", "gitlab", "bitbucket", "gitea", "forgejo"] as const;
export type GitHost = (typeof gitHosts)[number];

export type Edge = {
  readonly plan: Plan;
  /** Free plan only, the operator's choice: switch Bot Fight Mode off for the whole zone, as no rule can skip it. */
  readonly botFightMode?: "off";
};

export type Host = {
  readonly name: string;
  /** What `ssh` is given: user@host, or an alias of ~/.ssh/config. */
  readonly ssh: string;
  /** Run as root through `sudo -n`. */
  readonly sudo: boolean;
  /** The origin's public address, DNS data only: behind NAT the machine does not have it. */
  readonly address: string;
  readonly address6?: string;
  /** For hooks only. */
  readonly hostname: string;
  /** TCP port the edge contacts; nobody else may. */
  readonly originPort: number;
  /** absent: remove everything, DNS first. lost: the machine is gone, touch only the edge. */
  readonly state: "present" | "absent" | "lost";
};

export type Site = {
  readonly webRoot: string;
  readonly content: string;
  readonly keep: readonly string[];
  readonly paths: readonly string[];
  readonly hugo: string;
};

export type Hook = {
  /** The path's last segment: /webhook/<name>. */
  readonly name: string;
  readonly gitHost: GitHost;
  /** Whether the git host publishes its ranges. */
  readonly published: boolean;
  /** CIDRs that may deliver: sorted, without overlaps, never empty. */
  readonly sources: readonly string[];
  readonly repository: string;
  readonly branch: string;
  readonly site?: Site;
};

export type Limits = {
  /** Bytes of a delivery's body. */
  readonly bodyBytes: number;
  /** Refused requests a minute that one source may cause on one hook before the receiver answers 429. */
  readonly refusalsPerMinute: number;
  /** Requests one source may have open at the receiver at once. */
  readonly concurrentPerSource: number;
  /** Requests a second one source may send through the proxy; `proxyBurst` more may queue without delay. */
  readonly proxyRate: number;
  readonly proxyBurst: number;
};

export type Settings = {
  readonly zone: string;
  readonly edge: Edge;
  readonly hosts: readonly Host[];
  readonly hooks: readonly Hook[];
  readonly limits: Limits;
};
