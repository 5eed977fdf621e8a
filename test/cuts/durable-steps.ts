/**
 * Each sync of receiver, builder and apply.sh: what a power cut takes without it, or why no cut of ext4 shows that. The
 * order of all is asserted in service/receiver/spool.test.ts, service/builder/run/order.slow.test.ts and
 * infra/apply/order.test.ts; `soak -- --rebuild` removes them one at a time (hosts/cuts).
 *
 * Not synced is what may come back: names of pruned manifests, of a checkout that was complete and of pushes that are
 * published. The next run removes them again.
 */

/**
 * What the disk has of what was not synced: nothing, or all names and no contents, as where the sync of another program
 * makes ext4 write its journal.
 */
export type Unsynced = "nothing" | "names";

/** In hosts/cuts: what goes on while the power is cut. */
export type Work = "delivery" | "push" | "rollback" | "first arrival" | "arrival" | "failure" | "removal";

export type Step = {
  readonly file: string;
  /** The words to remove, and those instead. */
  readonly words: string;
  readonly instead: string;
} & (
  | { readonly work: Work; readonly unsynced: Unsynced; readonly lost: RegExp }
  /** ext4 and xfs write changes of names in their order, so that a later sync of anything has the earlier ones. */
  | { readonly because: string }
);

const builder = (file: string, words: string, instead = "") => ({ file: `service/builder/${file}`, words, instead });
const receiver = (words: string) => ({ file: "service/receiver/spool.ts", words, instead: "" });
const apply = (words: string, instead = ":") => ({ file: "infra/apply/apply.sh", words, instead });

export const steps: readonly Step[] = [
  { ...receiver("await file.sync();"), work: "delivery", unsynced: "names", lost: /a delivery is not whole/ },
  {
    ...receiver('await using(place, "r", (directory) => directory.sync());'),
    work: "delivery",
    unsynced: "nothing",
    lost: /a delivery is lost/,
  },
  {
    ...builder("files.ts", "    fs.fsyncSync(descriptor);"),
    work: "push",
    unsynced: "names",
    lost: /the push is lost/,
  },
  {
    ...builder("files.ts", "syncFolder(dirname(path));"),
    because: "the receiver's sync of the spool could remove a delivery before its name in `taken` is on the disk",
  },
  {
    ...builder("source/git.ts", '"core.fsync": "committed,loose-object"', '"core.fsync": "none"'),
    work: "push",
    unsynced: "names",
    lost: /the clone is broken/,
  },
  {
    ...builder("release/make-release.ts", "await syncFileSystem(places);"),
    work: "push",
    unsynced: "names",
    lost: /a visitor finds a broken file|what is published has no manifest/,
  },
  {
    ...builder("release/releases.ts", "syncFolder(places.manifests);"),
    because: "a sync of the site's folder could publish a release whose manifest has no name yet",
  },
  {
    ...builder("release/releases.ts", "syncFolder(places.site);"),
    because: "status.json syncs the same folder, and cannot be written on a full disk",
  },
  {
    ...builder("places.ts", "syncFolder(work);"),
    because: "a hold that came back would keep a later push of the same commit from being built",
  },
  {
    ...builder(
      "run/markers.ts",
      'if (markers.some(({ kind }) => kind === "rollback")) syncFolder(places.rootRequests);',
    ),
    because: "a rollback that came back would undo a publish whose own folders are synced",
  },
  { ...apply("sync -- $temps"), work: "arrival", unsynced: "names", lost: /pg-one is ""/ },
  {
    ...apply('sync -- "$state/pending/$layer" "$state/pending" "$state/stamps"'),
    work: "arrival",
    unsynced: "names",
    lost: /the next apply does not repair it/,
  },
  {
    ...apply('sync -- $(cat "$work/folders")'),
    because: "a stamp could be on the disk before the names of the files that it stands for",
  },
  { ...apply('find "$temp" -type f -exec sync -- {} +'), work: "failure", unsynced: "names", lost: /pg-one is ""/ },
  {
    ...apply('sync -- "$state/made" && mkdir -m 0755 -- "$1"', 'mkdir -m 0755 -- "$1"'),
    work: "first arrival",
    unsynced: "names",
    lost: /a removal leaves pg\.d/,
  },
  { ...apply('sync -- "$state/made.new"'), work: "arrival", unsynced: "names", lost: /a removal leaves pg\.d/ },
  { ...apply('sync -- "$work/temps"'), work: "failure", unsynced: "names", lost: /a removal leaves \.pg-one/ },
  { ...apply('sync -- "$new"'), work: "arrival", unsynced: "names", lost: /what was reported is not on the disk/ },
  {
    ...apply(' && sync -- "$state/stamps"', ""),
    because: "the next sync of anything has the stamp, too; without one, `up` reports what a power cut takes back",
  },
];

/** The text of a step's file without it. */
export function withoutStep({ file, words, instead }: Step, text: string): string {
  if (text.split(words).length !== 2) throw new Error(`${file} has not once: ${words}`);
  return text.replace(words, () => instead);
}
