/** The declaration of a layer: pure data without secrets, fit for a golden file. */

export type HostFile = {
  readonly path: `/${string}`;
  readonly text: string;
  readonly mode: `0${string}`; // octal, four digits: "0644"
  readonly owner: string; // "user:group"
  /** Shell under `set -e`, after `script`, that may reject the layer. `$1`: the new file; `$staged`: the folder of all new ones. */
  readonly check?: string;
  /** Whether `text` is the same for each host and stack. An apply then gets it from a file of this computer. */
  readonly fixed?: true;
};

export type HostFact = {
  readonly name: string; // as in preview's warnings: "table inet pushgate"
  /** Shell that only reads, in < 0.2 s; the probe ends a layer's facts after 15 s, apply.sh each after 5. */
  readonly read: string;
  readonly want: string; // what `read` must print
  /** The one thing that it is about, for `trace`: a unit, "IPv4", "IPv6", or "origin port" for an answer of the host's. */
  readonly about?: string;
};

export type HostLayer = {
  readonly name: string; // one word, also of the stamp: "firewall"
  /** Shell before `activate`, `reactivate`, `retire` and each fact's `read`: values, and functions (layer.sh). */
  readonly script?: string;
  /** The end of `script`, which is the same for each host and stack, as a `fixed` text is. */
  readonly functions?: string;
  readonly files: readonly HostFile[];
  /** Shell globs of paths that only pushgate writes. An apply removes what they match and `files` does not declare. */
  readonly owns: readonly string[];
  /** Shell under `set -e`: the smallest reload for `$changed`, the paths changed since the last sync. Idempotent. */
  readonly activate: string;
  /** Shell that runs after a failed `activate`, once the former files are back, so that the former state serves. */
  readonly reactivate?: string;
  readonly facts: readonly HostFact[];
  /** Shell that undoes `activate` when the layer leaves the host; it runs while the files are still in place. */
  readonly retire: string;
  /** False when the layer leaves the host: `retire`, then removal of everything in `owns`, then `activate`. */
  readonly present?: boolean;
  readonly timeout: number; // seconds that an apply may take
};

/** The same layer, leaving the host. `owns` removes its files; `activate` then only reloads systemd's units. */
export const leaving = (layer: HostLayer): HostLayer => ({
  ...layer,
  present: false,
  files: [],
  facts: [],
  activate: "systemctl daemon-reload",
});

/** The folders in which an apply keeps its state on a host. All other paths are in host/paths.ts. */
export const stateFolders = {
  state: "/var/lib/pushgate",
  stamps: "/var/lib/pushgate/stamps",
  incoming: "/var/lib/pushgate/incoming", // programs
} as const;
