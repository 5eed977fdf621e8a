/** The builder's settings: a rendered, public JSON file that service/settings.ts reads. */
import * as v from "valibot";

export const whole = (min: number, max: number) => {
  const say = `write a whole number from ${min} to ${max}`;
  return v.pipe(v.number(say), v.integer(say), v.minValue(min, say), v.maxValue(max, say));
};

const text = (what: string) => v.pipe(v.string(`write ${what}`), v.nonEmpty(`is empty: write ${what}`));
const absolute = (what: string) => v.pipe(text(what), v.regex(/^\/[^\0]*$/, `write the absolute path of ${what}`));
const list = (what: string) => v.pipe(v.array(text(what), `write a list: ${what}`), v.readonly());

export const hookName = v.pipe(
  v.string("write a name"),
  v.regex(/^[a-z0-9-]{1,32}$/, "use 1 to 32 of a-z, 0-9 and hyphens"),
);

/** Relative, and never leading out of its folder. */
const below = v.pipe(
  text("a path"),
  v.check((path) => !path.startsWith("/") && !path.split("/").includes(".."), "write a path below the folder"),
);

export const overSsh = (repository: string): boolean => !repository.startsWith("https://");

// Unknown keys pass: the file is rendered from a checked type, and a newer file must not stop an older bundle.
export const builderShape = v.pipe(
  v.object({
    hook: hookName,
    /** Without credentials. */
    repository: v.pipe(
      text("the repository's address"),
      v.regex(/^(?!-)(https:\/\/|ssh:\/\/|[\w.-]+@)/, "write an https:// or ssh address"),
    ),
    branch: v.pipe(text("a branch"), v.regex(/^[^-:\s][^:\s]*$/, "is not a branch name git accepts")),
    spool: absolute("the folder of deliveries"),
    asks: absolute("the folder of requests"),
    /** Only root and the builder enter it. */
    rootRequests: absolute("the folder of root's requests"),
    site: absolute("the site's folder"),
    /** Outside the clone; hugo's unit checks and reads it. Without it, the clone has the content. */
    content: v.exactOptional(absolute("the content folder")),
    /** The site's folder in the clone; without it, the site is at the clone's top. */
    folder: v.exactOptional(below),
    /** For people: the builder sees neither it nor the content. */
    webRoot: absolute("the folder the web server serves"),
    /** Paths whose change builds; `*` stands for any characters within a segment. */
    paths: list("a path in the repository"),
    /** Paths in webRoot that no build produces and that stay. */
    keep: v.pipe(v.array(below, "write a list of paths in webRoot"), v.readonly()),
    /** Extensions, without the dot, of files that are carried into the next releases. */
    assets: list("an extension"),
    /** Whether those are fetched that .gitmodules names. */
    submodules: v.boolean("write true or false"),
    knownHosts: v.exactOptional(absolute("the file of host keys")),
    /** Of the ssh-agent that holds the deploy key of a repository over ssh. */
    agent: v.exactOptional(absolute("ssh-agent's socket")),
    /** What the reporter is to send, where it sends anything. */
    reports: v.exactOptional(
      v.object({
        folder: absolute("the folder of reports"),
        /** Results of builds to the git host. */
        status: v.boolean("write true or false"),
        /** To `site.notify`: that builds fail, and that they succeed again. */
        notify: v.boolean("write true or false"),
      }),
    ),
    hugo: v.object(
      {
        socket: absolute("the hugo unit's socket"),
        /** Root writes there how each build ended. */
        result: absolute("the hugo unit's result"),
      },
      "write the absolute paths of the hugo unit's socket and result",
    ),
    limits: v.object({
      /** On the disk; a file counts for at least one block. */
      releaseBytes: whole(1, Number.MAX_SAFE_INTEGER),
      /** Of the last release's pages; a build with fewer is rejected. */
      pagesPercent: whole(0, 100),
      /** For a build, and for each call of git. */
      seconds: whole(1, 86_400),
      /** Of the hugo unit, which enforces both; the builder names them in reasons. */
      memoryMiB: v.exactOptional(whole(1, 1 << 20)),
      tasks: v.exactOptional(whole(1, 1 << 20)),
    }),
  }),
  v.check(
    ({ repository, agent }) => !overSsh(repository) || agent !== undefined,
    "`agent` is missing: a repository over ssh needs the ssh-agent with its deploy key",
  ),
  v.check(
    ({ repository, knownHosts }) => !overSsh(repository) || knownHosts !== undefined,
    "`knownHosts` is missing: a repository over ssh needs its host's keys pinned",
  ),
);

export type BuilderSettings = Readonly<v.InferOutput<typeof builderShape>>;
