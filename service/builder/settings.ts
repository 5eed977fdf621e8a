/** What a builder is told by its rendered, public JSON file. Read by service/settings.ts, with the environment. */
import * as v from "valibot";

export type BuilderSettings = {
  /** The hook's name, as in /webhook/<name>. */
  readonly hook: string;
  /** https:// or ssh, without credentials. */
  readonly repository: string;
  readonly branch: string;
  /** Absolute folders: accepted deliveries; asks of writers and of root; everything the site is made of. */
  readonly spool: string;
  readonly asks: string;
  readonly site: string;
  /** Absolute folder outside the clone, only ever read, and not by this program. */
  readonly content: string;
  /** Absolute path the web server serves; only read, and only to compare before an adoption. */
  readonly webRoot: string;
  /** Paths in the repository whose change builds; `*` stands for anything within a segment. */
  readonly paths: readonly string[];
  /** Paths in webRoot that no build produces and that stay. */
  readonly keep: readonly string[];
  /** Extensions, without the dot, of files that outlive the release that built them. */
  readonly assets: readonly string[];
  readonly submodules: boolean;
  /** Absolute file with the pinned host keys of an ssh repository. */
  readonly knownHosts?: string;
  /** Absolute path of the hugo unit's socket. */
  readonly hugo: { readonly socket: string };
  readonly limits: {
    /** On the disk, a file counting for at least one block. */
    readonly releaseBytes: number;
    /** Of the last release's pages, below which a build is refused. */
    readonly pagesPercent: number;
    /** A build, and each call of git, may take. */
    readonly seconds: number;
    /** Of silence before a build starts. */
    readonly debounceMilliseconds: number;
    /** What the hugo unit may use: only named in reasons, enforced by the unit. */
    readonly memoryMiB?: number;
    readonly tasks?: number;
  };
};

export const whole = (min: number, max: number) => {
  const say = `write a whole number from ${min} to ${max}`;
  return v.pipe(v.number(say), v.integer(say), v.minValue(min, say), v.maxValue(max, say));
};

const text = (what: string) => v.pipe(v.string(`write ${what}`), v.nonEmpty(`is empty: write ${what}`));
const absolute = (what: string) => v.pipe(text(what), v.regex(/^\/[^\0]*$/, `write the absolute path of ${what}`));
const texts = (what: string) => v.array(text(what), `write a list: ${what}`);

/** Relative, and nothing in it that leads out again. */
const below = v.pipe(
  text("a path"),
  v.check((path) => !path.startsWith("/") && !path.split("/").includes(".."), "write a path below the folder"),
);

// Unknown keys pass: the file is rendered from a checked type, and a newer one must not stop an older bundle.
export const builderShape = v.pipe(
  v.object({
    hook: v.pipe(v.string("write a name"), v.regex(/^[a-z0-9-]{1,32}$/, "use 1 to 32 of a-z, 0-9 and hyphens")),
    repository: v.pipe(
      text("the repository's address"),
      v.regex(/^(?!-)(https:\/\/|ssh:\/\/|[\w.-]+@)/, "write an https:// or ssh address"),
    ),
    branch: v.pipe(text("a branch"), v.regex(/^[^-:\s][^:\s]*$/, "is not a branch name git accepts")),
    spool: absolute("the folder of deliveries"),
    asks: absolute("the folder of asks"),
    site: absolute("the site's folder"),
    content: absolute("the content folder"),
    webRoot: absolute("the folder the web server serves"),
    paths: texts("a path in the repository"),
    keep: v.array(below, "write a list of paths in webRoot"),
    assets: texts("an extension"),
    submodules: v.boolean("write true or false"),
    knownHosts: v.exactOptional(absolute("the file of host keys")),
    hugo: v.object({ socket: absolute("the hugo unit's socket") }, "write the absolute path of the hugo unit's socket"),
    limits: v.object({
      releaseBytes: whole(1, Number.MAX_SAFE_INTEGER),
      pagesPercent: whole(0, 100),
      seconds: whole(1, 86_400),
      debounceMilliseconds: whole(0, 60_000),
      memoryMiB: v.exactOptional(whole(1, 1 << 20)),
      tasks: v.exactOptional(whole(1, 1 << 20)),
    }),
  }),
  v.check(
    ({ repository, knownHosts }) => !overSsh(repository) || knownHosts !== undefined,
    "`knownHosts` is missing: a repository over ssh needs its host's keys pinned",
  ),
);

export const overSsh = (repository: string): boolean => !repository.startsWith("https://");
