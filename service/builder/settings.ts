/** The builder's settings: a rendered, public JSON file that service/settings.ts reads. */
import * as v from "valibot";

/** Kinds of values. valibot's own messages say what it found: `pulumi up` renders the file, and no person writes it. */
export const whole = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
export const text = v.pipe(v.string(), v.nonEmpty());
export const absolute = v.pipe(v.string(), v.regex(/^\/[^\0]*$/));
export const hookName = v.pipe(v.string(), v.regex(/^[a-z0-9-]{1,32}$/));
const list = v.pipe(v.array(text), v.readonly());

/** Relative, and never leading out of its folder. */
const below = v.pipe(
  text,
  v.check((path) => !path.startsWith("/") && !path.split("/").includes(".."), "is not a path below the folder"),
);

const overSsh = (repository: string): boolean => !repository.startsWith("https://");

// Unknown keys pass: the file is rendered from a checked type, and a newer file must not stop an older bundle.
export const builderShape = v.pipe(
  v.object({
    hook: hookName,
    /** An address without credentials. */
    repository: v.pipe(v.string(), v.regex(/^(?!-)(https:\/\/|ssh:\/\/|[\w.-]+@)/)),
    branch: v.pipe(v.string(), v.regex(/^[^-:\s][^:\s]*$/)),
    spool: absolute,
    /** The folder for requests of the writers' group. */
    requests: absolute,
    /** Only root and the builder enter it. */
    rootRequests: absolute,
    site: absolute,
    /** A folder outside the clone, which Hugo's unit checks and reads. Absent where the clone has the content. */
    content: v.exactOptional(absolute),
    /** The site's folder in the clone; without it, the site is at the clone's top. */
    folder: v.exactOptional(below),
    /** Paths whose change builds; `*` stands for any characters within a segment. */
    paths: list,
    /** First segments of paths that nginx serves from other folders (`site.folders`): a build may have no file there. */
    folders: list,
    /** Extensions, without the dot, of files that are carried into the next releases. */
    assets: list,
    /** Whether the builder fetches the submodules that .gitmodules names. */
    submodules: v.boolean(),
    knownHosts: v.exactOptional(absolute),
    /** The socket of the ssh-agent that holds the deploy key of a repository over SSH. */
    agent: v.exactOptional(absolute),
    /** What the reporter is to send, where it sends anything. */
    reports: v.exactOptional(
      v.object({
        folder: absolute,
        /** Results of builds to the git host. */
        status: v.boolean(),
        /** To `site.notify`: that builds fail, and that they succeed again. */
        notify: v.boolean(),
      }),
    ),
    hugo: v.object({
      socket: absolute,
      /** The file in which root writes how each build ended. */
      result: absolute,
    }),
    limits: v.object({
      /** What a release may take on the disk; a file counts for at least one block. */
      releaseBytes: whole(1, Number.MAX_SAFE_INTEGER),
      /** Of the last release's pages; a build with fewer is rejected. */
      pagesPercent: whole(0, 100),
      /** For a build, and for each call of git. */
      seconds: whole(1, 86_400),
      /** Of Hugo's unit, which enforces both; the builder names them in reasons. */
      memoryMiB: v.exactOptional(whole(1, 1 << 20)),
      tasks: v.exactOptional(whole(1, 1 << 20)),
    }),
  }),
  v.check(
    ({ repository, agent }) => !overSsh(repository) || agent !== undefined,
    "`agent` is missing: a repository over SSH needs the ssh-agent with its deploy key",
  ),
  v.check(
    ({ repository, knownHosts }) => !overSsh(repository) || knownHosts !== undefined,
    "`knownHosts` is missing: a repository over SSH needs its host's keys pinned",
  ),
);

export type BuilderSettings = Readonly<v.InferOutput<typeof builderShape>>;
