/** What the builder starts from: its settings, a rendered, public JSON file, and what systemd's environment holds. */
import * as v from "valibot";
import { type Environment, environment, readShape, withFaults } from "../settings.ts";
import { absolute, hookName, text, whole } from "../shapes.ts";

const list = v.pipe(v.array(text), v.readonly());

const below = v.pipe(
  text,
  v.check((path) => !path.startsWith("/") && !path.split("/").includes(".."), "is not a path below the folder"),
);

/** An address without a slash at its end. */
const registry = v.pipe(
  v.string(),
  v.regex(/^https:\/\//),
  v.transform((url) => url.replace(/\/+$/, "")),
);

export const builderShape = v.object({
  hook: hookName,
  repository: v.pipe(v.string(), v.regex(/^(?!-)(https:\/\/|ssh:\/\/|[\w.-]+@)/)),
  branch: v.pipe(v.string(), v.regex(/^(?!-)[^\0- :]+$/)),
  /** Of a site of previews: `branches` are patterns, the newest `keep` are built, each for `url` and its own folder. */
  previews: v.exactOptional(
    v.object({ branches: list, keep: whole(1, 50), url: v.pipe(v.string(), v.regex(/^https:\/\/[^/]+\/$/)) }),
  ),
  spool: absolute,
  requests: absolute,
  rootRequests: absolute,
  site: absolute,
  content: v.exactOptional(absolute),
  folder: v.exactOptional(below),
  paths: list,
  folders: list,
  assets: list,
  reconcileMinutes: whole(1, 60),
  submodules: v.boolean(),
  knownHosts: v.exactOptional(absolute),
  /** The socket of the ssh-agent that holds the deploy key of a repository over SSH. */
  agent: v.exactOptional(absolute),
  reports: v.exactOptional(
    v.object({
      ...{ folder: absolute, status: v.boolean(), purge: v.boolean() },
      notify: v.array(v.object({ name: hookName, published: v.boolean() })),
    }),
  ),
  generator: v.object({
    socket: absolute,
    /** The file in which root writes how each build ended. */
    result: absolute,
    /** Of its settings: with others a site is built anew. */
    digest: v.exactOptional(text),
  }),
  fetcher: v.object({
    socket: absolute,
    result: absolute,
    registries: v.object({ go: registry, npm: registry, sums: v.exactOptional(registry) }),
    /** The release of Node whose npm installs packages. */
    node: v.optional(absolute),
  }),
  limits: v.object({
    releaseBytes: whole(1, Number.MAX_SAFE_INTEGER),
    pagesPercent: whole(0, 100),
    /** For a build, and for each call of git. */
    seconds: whole(1, 86_400),
    /** Of the generator's unit, for reasons. */
    memoryMiB: v.exactOptional(whole(1, 1 << 20)),
    tasks: v.exactOptional(whole(1, 1 << 20)),
  }),
});

export type BuilderSettings = Readonly<v.InferOutput<typeof builderShape>>;

export type FetchSettings = Pick<BuilderSettings, "fetcher"> & {
  readonly limits: Pick<BuilderSettings["limits"], "releaseBytes" | "seconds">;
};

export const readSettings = (env: Environment): BuilderSettings =>
  withFaults((report) => readShape(builderShape, env, report));

export type Builder = ReturnType<typeof readBuilder>;

export function readBuilder(env: Environment = environment) {
  return {
    settings: readSettings(env),
    path: env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    /** PEM file of the authorities that an https repository's certificate is checked against; else the host's. */
    ...(env.GIT_SSL_CAINFO && { authorities: env.GIT_SSL_CAINFO }),
  };
}

/** In systemd's words, such as oom-kill, killed and KILL. */
export type UnitEnd = { readonly result: string; readonly code: string; readonly status: string };
export type Ended = UnitEnd & { readonly output: string };

/** Codes of the fetcher, by the results of its setbacks. */
export const exits = { rejected: 65, failed: 69 } as const;

/** Go's, of the digests of public modules. */
export const checksums = "https://sum.golang.org";

export const readUnitEnd = (env: Environment = environment): UnitEnd => ({
  result: env.SERVICE_RESULT ?? "",
  code: env.EXIT_CODE ?? "",
  status: env.EXIT_STATUS ?? "",
});
