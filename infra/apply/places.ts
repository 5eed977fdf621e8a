/** Where an apply keeps what it remembers on a host. Every other place is in host/paths.ts. */
export const places = {
  /** Stamps, incoming programs, salts. */
  state: "/var/lib/pushgate",
  stamps: "/var/lib/pushgate/stamps",
  incoming: "/var/lib/pushgate/incoming",
} as const;
