/** What a repository's address says of the road to it. */

export type Remote = {
  readonly ssh: boolean;
  readonly host: string;
  readonly port: number;
};

const ports = { https: 443, ssh: 22 } as const;

/** Of an address that `schema.ts` lets through: `https://…`, `ssh://user@host…`, or `user@host:path`. */
export function remoteOf(repository: string): Remote {
  const [, scheme, host = "", port] = /^(https|ssh):\/\/(?:[^@/]*@)?([^/:]+)(?::(\d+))?\//.exec(repository) ?? [];
  if (scheme === "https" || scheme === "ssh")
    return { ssh: scheme === "ssh", host, port: port === undefined ? ports[scheme] : Number(port) };
  return { ssh: true, host: /@([^:]+):/.exec(repository)?.[1] ?? "", port: ports.ssh };
}

/** How ssh's known_hosts names it. */
export const knownAs = ({ host, port }: Remote): string => (port === ports.ssh ? host : `[${host}]:${port}`);
