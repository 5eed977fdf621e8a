/** The one reader of process.env. What the receiver is told, by a rendered, public JSON file. */

export type ReceiverHook = {
  /** The path's last segment: /webhook/<name>. */
  readonly name: string;
  readonly gitHost: "github" | "gitlab" | "bitbucket" | "gitea" | "forgejo";
  /** The branch whose pushes count. */
  readonly branch: string;
};

export type ReceiverSettings = {
  /** Absolute folder; accepted deliveries land in <spool>/<hook>/. */
  readonly spool: string;
  readonly hooks: readonly ReceiverHook[];
  readonly limits: {
    /** Bytes of a delivery's body. */
    readonly bodyBytes: number;
    /** Refused requests a minute that one source may cause on one hook. */
    readonly refusalsPerMinute: number;
    /** Requests one source may have open at once. */
    readonly concurrentPerSource: number;
  };
  /** Only outside systemd: where to listen when no socket was handed over. */
  readonly listen?: { readonly host: string; readonly port: number };
};
