/** Where a repository is, by its address, and its names in the URLs of its git host's API. */
export type Repository = {
  readonly ssh: boolean; // else it is read over HTTPS
  readonly host: string;
  readonly port: number;
  /** The API's. A server that is reached over SSH has its API on port 443 of the same name. */
  readonly origin: string;
  readonly names: readonly string[]; // in its path, without `.git`
};

/** Names of the public services: a repository there, or at a name below it, is this git host's. */
export const publicDomains = {
  ...{ bitbucket: "bitbucket.org", forgejo: "codeberg.org", github: "github.com", gitlab: "gitlab.com" },
  "github-enterprise": "ghe.com",
} as const;

export function repositoryOf(address: string): Repository {
  const url = address.replace(/^([^@/]*@[^:/]+):/, "ssh://$1/");
  const [, scheme, name = "", port, path = ""] =
    /^(https|ssh):\/\/(?:[^@/]*@)?([^/:]+)(?::(\d+))?\/(.*)$/.exec(url) ?? [];
  const ssh = scheme !== "https";
  const host = name.toLowerCase();
  return {
    ssh,
    host,
    port: Number(port ?? (ssh ? 22 : 443)),
    origin: `https://${host}${port === undefined || ssh ? "" : `:${port}`}`,
    names: path
      .replace(/(\.git)?\/*$/, "")
      .split("/")
      .filter((name) => name !== ""),
  };
}
