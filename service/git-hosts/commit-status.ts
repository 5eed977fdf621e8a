/** What the git hosts' APIs for the result of a build on a commit have in common. */
import type { Repository } from "./repository.ts";

/** The result of a build, for the commit that was built. */
export type BuildResult = {
  readonly commit: string;
  readonly state: "pending" | "success" | "failure";
  /** One line. */
  readonly reason: string;
  /** Which build this is: other programs set results on the same commit. */
  readonly context: string;
  /** The site's address; absent where another web server serves it. */
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
  /** Characters of a reason that the API takes. */
  readonly longest: number;
  readonly request: (repository: Repository, result: BuildResult, token: string) => StatusRequest;
};

/** The reason, cut where the API takes no more. */
export function cut(reason: string, longest: number): string {
  const characters = [...reason];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : reason;
}
