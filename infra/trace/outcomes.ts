/**
 * What can become of a delivery: one row for each outcome, with the layer, the fix, and the evidence that the outcome
 * leaves in each source. `trace`, the canary and README's table read these rows.
 */
import type { Shape } from "./answers.ts";
import { cloudflareOutcomes } from "./cloudflare.ts";
import type { NginxLine, ReceiverLine, SecurityEvent } from "./evidence.ts";
import { proxyOutcomes } from "./proxy.ts";
import { receiverOutcomes } from "./receiver.ts";

/** The layers on a delivery's path, as README's picture counts them; 0 is the git host. */
export const pathLayers = [
  "the git host",
  "1 DNS",
  "2 WAF",
  "3 bot management",
  "4 Cloudflare to origin",
  "5 firewall",
  "6 nginx",
  "7 systemd",
  "8 receiver",
] as const;
export type PathLayer = (typeof pathLayers)[number];

export type Outcome = {
  readonly name: string;
  /** The layer that rejected the delivery, or "delivered". */
  readonly layer: PathLayer | "delivered";
  /** A sentence without its full stop. `{origin}` in it is the host's address and port. */
  readonly what: string;
  /** `{rule}` in it is the rule of the security event. */
  readonly fix?: string;
  /** "none": the git host's delivery history has no push. */
  readonly history?: "none";
  /** Any of these. */
  readonly answer: readonly Shape[];
  /** The security event that the outcome leaves; absent where Cloudflare rejects nothing. */
  readonly event?: (event: SecurityEvent) => boolean;
  /** "none": the outcome leaves no line. */
  readonly nginx: "none" | ((line: NginxLine) => boolean);
  readonly receiver: "none" | ((line: ReceiverLine) => boolean);
  /** The receiver's line may come later, or not at all. */
  readonly unlogged?: true;
};

export const outcomes: readonly Outcome[] = [
  {
    name: "never sent",
    layer: "the git host",
    what: "the git host has sent no push to this webhook",
    fix: "npx pushgate hook --set, which creates or corrects the webhook. GitHub sends no push above 25 MB, of more than 5,000 branches or of more than 3 tags, GitLab none of more than 3 branches or tags.",
    history: "none",
    answer: [],
    nginx: "none",
    receiver: "none",
  },
  ...cloudflareOutcomes,
  ...proxyOutcomes,
  ...receiverOutcomes,
];
