/** What the git hosts' APIs for the result of a build on a commit have in common. */

/** The result of a build, for the commit that was built. */
export type BuildResult = {
  readonly commit: string;
  readonly state: "pending" | "success" | "failure";
  /** One line. */
  readonly reason: string;
  /** Which build this is: other programs set results on the same commit. */
  readonly context: string;
  /** Of the site; absent where another web server serves it. */
  readonly url?: string | undefined;
};

/** The request that sets the result of a build. Its headers hold the token. */
export type StatusRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, string | undefined>>;
};

export type StatusApi = {
  /** Where a person makes the token, and the least permission with which it can set a result. */
  readonly tokenPage: string;
  readonly permission: string;
  /** Characters of a reason that it takes. */
  readonly longest: number;
  readonly request: (repository: Repository, result: BuildResult, token: string) => StatusRequest;
};

/** Where a repository is. A server that is reached over SSH has its API on port 443 of the same name. */
export type Repository = {
  readonly host: string;
  readonly origin: string;
  /** Of its path, without `.git`. */
  readonly names: readonly string[];
};

/** Of an address as the configuration allows it: `https://…`, `ssh://user@host…` or `user@host:path`. */
export function repositoryOf(address: string): Repository {
  const [, host = "", port = "", path = ""] =
    /^https:\/\/([^/:]+)(:\d+)?\/(.*)$/.exec(address) ??
    /^ssh:\/\/[^@/]*@([^/:]+)()(?::\d+)?\/(.*)$/.exec(address) ??
    /^[^@]*@([^:]+)():(.*)$/.exec(address) ??
    [];
  const names = path
    .replace(/\/+$/, "")
    .replace(/\.git$/, "")
    .split("/")
    .filter((name) => name !== "");
  return { host, origin: `https://${host}${port}`, names };
}

/** Names as segments of a URL. */
export const segments = (names: readonly string[]): string => names.map(encodeURIComponent).join("/");

/** The last two names, and those before them: of a server whose pages are below a path. */
export function splitNames({ names }: Repository): { readonly prefix: string; readonly last: string } {
  const prefix = segments(names.slice(0, -2));
  return { prefix: prefix === "" ? "" : `/${prefix}`, last: segments(names.slice(-2)) };
}

/** The reason, cut where the API takes no more. */
export function cut(reason: string, longest: number): string {
  const characters = [...reason];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : reason;
}
