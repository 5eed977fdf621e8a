/**
 * The declaration of a layer: files, the paths that pushgate owns, how the running system takes the files up, and the
 * facts that prove it did. Pure data: a renderer makes it, `reconcile.ts` compares it, `ship.ts` sends it.
 * A layer holds no secret, so all of it is fit for a golden file.
 */

/** A public file on the host. */
export type HostFile = {
  /** Absolute. */
  readonly path: `/${string}`;
  readonly text: string;
  /** Octal, four digits, as `stat -c %a` prints it after a zero: "0644". */
  readonly mode: `0${string}`;
  /** "user:group" as `stat -c %U:%G` prints it. */
  readonly owner: string;
  /**
   * Shell under `set -e` that runs on the host before anything is installed; a non-zero exit rejects the layer. `$1` is
   * the path of the new file under its own name; `$staged` is the folder with all of the layer's new files.
   */
  readonly check?: string;
};

/** One property of the live system. */
export type HostFact = {
  /** It appears in preview's warnings: "table inet pushgate". */
  readonly name: string;
  /**
   * Shell that only reads. Its standard output, trimmed, up to 2 KiB, is the fact, whatever its exit status. It runs in
   * every preview, so it must be fast (< 0.2 s); after 5 seconds the probe ends it.
   */
  readonly read: string;
  /** The text that `read` must print. */
  readonly want: string;
};

export type HostLayer = {
  /** One word, also the name of the stamp: "firewall". */
  readonly name: string;
  /** The layer's name in stacks of an earlier version: its stamp is read under this name and removed by the next apply. */
  readonly formerly?: string;
  /**
   * Shell that comes before `activate`, `restore`, `retire` and each fact's `read`: the layer's values as variables and
   * its functions (layer.sh beside the renderer). The host receives it once.
   */
  readonly script?: string;
  readonly files: readonly HostFile[];
  /** Shell globs of paths that only pushgate writes. An apply removes what they match and `files` does not declare. */
  readonly owns: readonly string[];
  /**
   * Shell under `set -e` that runs as root once the files are in place: the smallest reload that takes them up.
   * Idempotent. `$changed` holds the paths that were written or removed since the layer was last in sync, one per line.
   * Where every file is as declared and a fact is not, `$changed` holds all of them.
   */
  readonly activate: string;
  /** Shell that runs after a failed `activate`, once the former files are back, so that the former state serves. */
  readonly restore?: string;
  readonly facts: readonly HostFact[];
  /** Shell that undoes `activate` when the layer leaves the host; it runs while the files are still in place. */
  readonly retire: string;
  /** False when the layer leaves the host: `retire`, then removal of everything in `owns`, then `activate`. */
  readonly present?: boolean;
  /** Seconds an apply may take. */
  readonly timeout: number;
};

/** The same layer, leaving the host. `owns` removes its files; `activate` then only reloads systemd's units. */
export function leaving(layer: HostLayer): HostLayer {
  return { ...layer, present: false, files: [], facts: [], activate: "systemctl daemon-reload" };
}
