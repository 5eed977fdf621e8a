/** What each source on a delivery's path shows of one delivery. An absent source was not looked at. */
import type { HostState } from "./host-state.ts";

export type Evidence = {
  /** "none": the git host's delivery history of the webhook was read, and has no push. */
  readonly history?: "none";
  /** What the git host's page of deliveries shows. */
  readonly answer?: Answer;
  /** Cloudflare's security events of the request. They are sampled, so an empty list proves nothing. */
  readonly cloudflare?: readonly SecurityEvent[];
  /** "none": the log was read, and has no line of this delivery. */
  readonly nginx?: NginxLine | "none";
  readonly receiver?: ReceiverLine | "none";
  /** Of the host with the delivery's lines, or of each host that it may have been sent to. State rules nothing out. */
  readonly state?: readonly HostState[];
};

export type Answer = {
  /** 0 where the git host got no answer. */
  readonly status: number;
  /** Names in lower case; empty for a header that is known to be absent. */
  readonly headers: Readonly<Record<string, string>>;
  /** A person typed some of the headers: one that is missing may have been there. */
  readonly partial?: true;
  readonly body?: string;
};

/** What one product of Cloudflare did with a request. The texts have no control characters. */
export type SecurityEvent = {
  /** The product, in lower case: firewallcustom, bic, botfight, … (the field Source of Cloudflare's firewall events). */
  readonly source: string;
  /** In lower case, without underscores: block, managedchallenge, skip, log, … */
  readonly action: string;
  readonly rule: string;
  readonly description: string;
  /** Whose rule it is, where the zone's rulesets have it. */
  readonly owner?: "pushgate" | "zone";
};

/** A line of /var/log/pushgate-nginx/hooks.log: `log_format pushgate` of infra/host/proxy. */
export type NginxLine = {
  /** 499 where Cloudflare left before the answer. */
  readonly status: number;
  /** The receiver's status; empty or "-" where nginx tried no connection, 502 or 504 where the receiver did not answer. */
  readonly up_status: string;
  /** Seconds; empty or "-" where no connection to the socket was opened. */
  readonly up_connect: string;
  /** "1": the client address is in the git host's ranges. */
  readonly in_ranges: string;
  /** REJECTED: by nginx's rate limit. */
  readonly limit: string;
  readonly client: string;
};

/** A line of the receiver's journal: `JournalLine` of service/journal.ts. */
export type ReceiverLine = { readonly status: number; readonly reason: string; readonly source: string | null };
