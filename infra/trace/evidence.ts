/** What is known of one attempt at a delivery: what it is, and what each source shows of it. */
import type { RecordedAnswer } from "../../service/git-hosts/api/api.ts";
import type { JournalLine } from "../../service/journal.ts";
import type { Difference } from "../apply/reconcile.ts";
import type { PathLayer } from "./outcomes.ts";

/** A source that is absent was not looked at. `kind`: the git host's word, push or ping. `time`: ISO 8601. */
export type Evidence = Readonly<Partial<Record<"delivery" | "kind" | "host" | "hook" | "time", string>>> & {
  readonly history?: "none"; // the git host's delivery history of the webhook was read, and has no push
  readonly answer?: Answer; // as the git host's page of deliveries shows it
  /** Cloudflare's security events of the request, or why they were not read. An empty list proves nothing: see 026. */
  readonly cloudflare?: readonly SecurityEvent[];
  readonly notLooked?: string;
  /** "none": the log was read, and has no line of this delivery. */
  readonly nginx?: NginxLine | "none";
  readonly receiver?: ReceiverLine | "none";
  /** Of the host with the delivery's lines, or of each host that it may have been sent to. State rules nothing out. */
  readonly state?: readonly HostState[];
};

/** A header that is known to be absent is empty. `partial`: a person typed some of them: one that is missing may have been there. */
export type Answer = RecordedAnswer & { readonly partial?: true };

/** What one product of Cloudflare did with a request. The texts have no control characters. */
export type SecurityEvent = {
  readonly source: string; // the product, in lower case: firewallcustom, bic, botfight, …
  readonly action: string; // in lower case, without underscores: block, managedchallenge, skip, log, …
  readonly rule: string;
  readonly description: string;
  readonly owner?: "pushgate" | "zone"; // of the rule, where the zone's rulesets have it
};

/** A line of nginx's access log: `log_format pushgate` of infra/host/proxy. */
export type NginxLine = {
  readonly status: number; // a text in the log; 499 where Cloudflare left before the answer
  readonly up_status: string; // empty or "-" where nginx tried no connection, 502 or 504 where no answer came
  readonly up_connect: string; // seconds; empty or "-" where no connection to the socket was opened
  readonly in_ranges: string; // "1": the client address is in the git host's ranges
  readonly limit: string; // REJECTED: by nginx's rate limit
  readonly client: string;
};

export type ReceiverLine = Pick<JournalLine, "status" | "reason" | "source" | "overBudget">;

/** What a host reports of its own layers, at the time of the trace. */
export type HostState = {
  readonly host: string;
  readonly ssh: string; // what a person types before a command of root: "ssh root@web1.example.org"
  readonly unreachable?: string; // why the host could not be looked at; then nothing else is known of it
  /** What is not as this release declares it, with the name of its host layer. */
  readonly differences: readonly (Pick<Difference, "what" | "path" | "about"> & {
    readonly layer: string;
    readonly found?: string; // what the host reports of a fact
  })[];
  /** The guard's, each in force until the next one's time; the last one is of now. A fault has a fix. */
  readonly findings: readonly Readonly<Record<"time" | "code" | "what" | "fix", string>>[];
  readonly drops: readonly string[]; // rules of other tables that may drop what comes to the origin port
  readonly sockets: readonly { readonly unit: string; readonly hooks: readonly string[] }[];
  /** Of the file systems with the spool and with nginx's logs; absent where there is none. */
  readonly spool?: Room;
  readonly logs?: Room;
};

type Room = { readonly freeKiB: number; readonly freeFiles: number; readonly readOnly: boolean };
export const isFull = ({ freeKiB, freeFiles }: Room): boolean => freeKiB < 1024 || freeFiles < 100;

/** What is broken now and may explain an outcome. */
export type Cause = {
  readonly outcome: string; // its name
  /** The layer that broke. The outcome's layer can be another: where nginx is down, Cloudflare finds a closed port. */
  readonly layer: PathLayer;
  readonly host: string;
  readonly what: string;
  readonly fix: string; // a command for the operator's shell, or what to do by hand
};
