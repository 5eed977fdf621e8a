/** The folders in which an apply keeps its state on a host. All other paths are in host/paths.ts. */
export const stateFolders = {
  /** Stamps, incoming programs, salts. */
  state: "/var/lib/pushgate",
  stamps: "/var/lib/pushgate/stamps",
  incoming: "/var/lib/pushgate/incoming",
} as const;
