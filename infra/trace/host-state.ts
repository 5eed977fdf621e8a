/** What a host reports of its own layers, at the time of the trace: evidence beside the two logs. */

export type HostState = {
  readonly host: string;
  /** What a person types before a command of root: "ssh root@web1.example.org". */
  readonly ssh: string;
  /** Why the host could not be looked at; then nothing else is known of it. */
  readonly unreachable?: string;
  /** Live state, and files, that are not as this release of pushgate declares them; `layer` as infra/host names it. */
  readonly differences: readonly { readonly layer: string; readonly text: string; readonly file: boolean }[];
  /** The guard's last finding, "proven" where all is well. */
  readonly guard: string;
  /** What the guard wrote to its journal, without the minutes in which it found nothing. */
  readonly guardLines: readonly { readonly time: string; readonly text: string }[];
  /** Rules and policies of other tables that may drop what comes to the origin port: "inet other in: drop". */
  readonly drops: readonly string[];
  /** Packets, by the name of the counter in pushgate's own table. */
  readonly counters: Readonly<Record<string, number>>;
  /** Lines of the kernel's log with pushgate's prefix, the last ones. */
  readonly kernelLines: readonly string[];
  /** The allowlist of each socket: what is installed, and what this release declares. CIDRs. */
  readonly sockets: readonly {
    readonly unit: string;
    readonly hooks: readonly string[];
    readonly installed: readonly string[];
    readonly declared: readonly string[];
  }[];
  /** Of the spool's file system; undefined where there is no spool. */
  readonly spool?: Room;
  /** Of the file system with nginx's logs. */
  readonly logs?: Room;
};

type Room = { readonly freeKiB: number; readonly freeFiles: number; readonly readOnly: boolean };
export const isFull = ({ freeKiB, freeFiles }: Room): boolean => freeKiB < 1024 || freeFiles < 100;
/** Whether a line of a delivery may be missing because the file system took none. */
export const mayLack = ({ logs }: HostState): boolean => logs !== undefined && (logs.readOnly || isFull(logs));
