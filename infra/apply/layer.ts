/**
 * What one layer wants of a machine: files, what is ours to prune, how the running system takes it up, and the facts
 * that prove it did. Pure data: a renderer makes it, `reconcile.ts` compares it, `ship.ts` sends it.
 * Nothing in here is secret, so all of it is fit for a golden file.
 */

/** A public file on the machine. */
export type HostFile = {
  /** Absolute. */
  readonly path: `/${string}`;
  readonly text: string;
  /** Octal, four digits, as `stat -c %a` would print it with a leading zero: "0644". */
  readonly mode: `0${string}`;
  /** "user:group" as `stat -c %U:%G` prints it. */
  readonly owner: string;
  /**
   * Shell under `set -e`, run on the machine before anything is installed; non-zero refuses the layer. `$1` is the
   * candidate's path: its own name, with the layer's other candidates around it as they will stand below `$staged`.
   */
  readonly check?: string;
};

/** Something the live system can be asked. */
export type HostFact = {
  /** A person's words: "table inet pushgate". It appears in preview's warnings. */
  readonly name: string;
  /**
   * Shell, reads only; its standard output, trimmed, up to 2 KiB, is the fact, whatever its exit status. Runs in every
   * preview, so it must be fast (< 0.2 s); after five seconds it is given up.
   */
  readonly read: string;
  /** What `read` must print. */
  readonly want: string;
};

export type HostLayer = {
  /** One word, also the resource's name and the stamp's: "firewall". */
  readonly name: string;
  readonly files: readonly HostFile[];
  /** Shell globs of paths that are ours alone: what exists there and is not in `files` is pruned, and is drift before that. */
  readonly owns: readonly string[];
  /**
   * Shell under `set -e`, run as root after the files are in place; idempotent, and the smallest reload that takes them
   * up. `$changed` holds the paths that were written or removed since the layer last stood whole, one per line: an
   * unchanged daemon need not be touched. Where the files are as declared and a fact is not, it runs with all of them.
   */
  readonly activate: string;
  /** Shell, run after a failed activate once the former files are back, so that the former state serves. */
  readonly restore?: string;
  readonly facts: readonly HostFact[];
  /** Shell that undoes `activate` when the layer leaves the machine; runs while our files are still in place. */
  readonly retire: string;
  /** False when the layer is to leave the machine: `retire`, then prune everything in `owns`, then `activate`. */
  readonly present: boolean;
  /** Seconds an apply may take. */
  readonly timeout: number;
};

/** The same layer, leaving the machine. Its files go by `owns`; what is left to do afterwards is to tell systemd. */
export function leaving(layer: HostLayer): HostLayer {
  return { ...layer, present: false, files: [], facts: [], activate: "systemctl daemon-reload" };
}
