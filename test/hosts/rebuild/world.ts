/**
 * A world with a builder: a throwaway host with an operator's web server and content, a git host on the internet, the
 * hook `site`, whose repository is fetched over https, and the hook `docs`, whose repository is fetched over SSH.
 *
 *   const world = await buildRebuild(host);
 *   await world.start();
 *   const commit = await world.push({ "static/a.css": "…" });
 *   await published(host, commit);
 */
import { createHash } from "node:crypto";
import { archiveUrl, type ToolName } from "../../../infra/config/tools.ts";
import { builderPaths as paths } from "../../../infra/host/paths.ts";
import { beginOfBuild } from "../../../service/builder/build/content.ts";
import type { Run } from "../../engine/engine.ts";
import { pushPayload } from "../../fakes/deliveries.ts";
import type { Files, Repository } from "../../fakes/git-repository.ts";
import { secrets } from "../../fixtures.ts";
import { type GitServer, startGitServer } from "../lab/git-server.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { buildWorld, type World, type WorldOptions } from "../world.ts";
import { type HookName, placesOf, prepareContent, prepareOperator, siteFiles, sitePorts } from "./site.ts";
import { published } from "./status.ts";

export type Page = { readonly status: number; readonly body: string };

export type Rebuild = ReturnType<typeof rebuildAround>;

export type RebuildOptions = {
  /** Changes to `site` of each hook; `false` leaves the hook without a site. */
  readonly site?: Readonly<Record<string, unknown>>;
  readonly docs?: Readonly<Record<string, unknown>> | false;
  /** The host has content, but no web server. */
  readonly newcomer?: boolean;
  readonly world?: WorldOptions;
};

export async function buildRebuild(host: Host, options: RebuildOptions = {}): Promise<Rebuild> {
  const git = await startGitServer();
  await git.introduce(host);
  await (options.newcomer ? prepareContent(host) : prepareOperator(host));
  for (const hook of ["site", "docs"] as const) git.repository(`example/${hook}`).push(siteFiles());
  const sites: Sites = {
    site: { ...own("site"), ...options.site },
    docs: options.docs === false ? undefined : { ...own("docs"), knownHosts: [git.ssh.knownHosts], ...options.docs },
  };
  const world = await buildWorld([host], {
    ...options.world,
    config: { "pushgate:hooks": hooksOf(git, sites), ...options.world?.config },
  });
  if (sites.docs) await world.stack.setSecrets({ "pushgate:secrets": { docs: { deployKey: git.ssh.deployKey } } });
  return rebuildAround(host, world, git, sites);
}

/** `site` of each hook. */
export type Sites = Record<HookName, Readonly<Record<string, unknown>> | undefined>;

/** `pushgate:hooks` of the stack. */
const hooksOf = (git: GitServer, { site, docs }: Sites) => [
  {
    name: "site",
    gitHost: "github-enterprise",
    sources: [`${actors.github.v4[0]}/32`],
    repository: git.url("example/site"),
    branch: "main",
    ...(site && { site }),
  },
  {
    name: "docs",
    gitHost: "forgejo",
    sources: [`${actors.gitlab.v4[0]}/32`],
    repository: git.ssh.url("example/docs"),
    branch: "main",
    ...(docs && { site: docs }),
  },
];

/** Who delivers for docs. */
export const ofDocs = { secret: secrets.docs.current, source: actors.gitlab.v4[0] };

/** What a test does with an existing world and git host, whose stack has these sites. */
export function rebuildAround(host: Host, world: World, git: GitServer, declared: Sites) {
  const repositories: Readonly<Record<HookName, Repository>> = {
    site: git.repository("example/site"),
    docs: git.repository("example/docs"),
  };
  /** `site` of each hook in the stack's configuration. */
  const sites = { ...declared };
  /** Sends the delivery that the git host sends after a push. */
  const deliver = (commit: string, hook: HookName = "site") =>
    world.deliver({ hook, payload: { ...pushPayload(), after: commit }, ...(hook === "docs" && ofDocs) });
  /** Runs `pulumi up`; throws with its output unless it succeeds. */
  const up = async (): Promise<Run> => {
    const run = await world.stack.up();
    if (run.code !== 0) throw new Error(`pulumi up: exit ${run.code}\n${run.stdout}\n${run.stderr}`);
    return run;
  };
  return {
    ...{ host, world, git, repositories, sites, deliver, up },
    /** Runs `up` and delivers both heads, because the timer starts the first build only a minute after boot. */
    async start() {
      await up();
      const hooks = (["site", "docs"] as const).filter((hook) => sites[hook] !== undefined);
      await Promise.all(
        hooks.map(async (hook) => {
          const head = repositories[hook].head()!;
          await deliver(head, hook);
          await published(host, head, { hook, timeout: 90_000 });
        }),
      );
    },
    /** Changes `site` of a hook in the stack's configuration; undefined removes a key. */
    configure(hook: HookName, change: Readonly<Record<string, unknown>>) {
      sites[hook] = { ...sites[hook], ...change };
      world.stack.configure({ "pushgate:hooks": hooksOf(git, sites) });
    },
    /** Makes a commit on main and delivers it; the receiver must accept the delivery. */
    async push(files: Files, hook: HookName = "site") {
      const commit = repositories[hook].push(files);
      const answer = await deliver(commit, hook);
      if (answer.status !== 202) throw new Error(`the answer to the delivery is ${answer.status}: ${answer.body}`);
      return commit;
    },
    /** Requests a page of the site from the operator's own nginx. */
    visit: (path = "/", hook: HookName = "site") => visit(host.address, sitePorts[hook], path),
    /** Requests a build or rollback by a file of that name, as `user`. Only root can use tick, adopt and rollback-… */
    async request(name: string, user = "root", hook: HookName = "site") {
      const { requests, rootRequests } = placesOf(hook);
      // Like root's own programs.
      const made = `${rootRequests}/../.request`;
      const asRoot = `: >'${made}' && mv -fT '${made}' '${rootRequests}/${name}'`;
      await host.inside(user === "root" ? asRoot : `runuser -u ${user} -- touch '${requests}/${name}'`);
    },
    async close() {
      await world.close();
      await git.close();
    },
  };
}

const own = (hook: HookName) => ({
  ...{ webRoot: placesOf(hook).webRoot, content: placesOf(hook).content },
  ...(hook === "docs" && { writers: "writers" }),
});

/** Requests a page from an address and port. Status 0: no answer, or an incomplete one. */
async function visit(host: string, port: number, path: string): Promise<Page> {
  const how = { redirect: "manual", headers: { connection: "close" }, signal: AbortSignal.timeout(15_000) } as const;
  try {
    const answer = await fetch(`http://${host}:${port}${path}`, how);
    return { status: answer.status, body: await answer.text() };
  } catch {
    return { status: 0, body: "" };
  }
}

export const mirror = "https://git.example.net/releases";
/** Puts the archive of a release onto the mirror, for both architectures. Returns its entry in `site.tools`. */
export function mirrored({ git }: Rebuild, tool: ToolName, version: string, archive: Buffer) {
  const sum = createHash("sha256").update(archive).digest("hex");
  for (const architecture of ["amd64", "arm64"] as const)
    git.files.set(new URL(archiveUrl(tool, version, architecture, mirror)).pathname, archive);
  return { version, amd64: sum, arm64: sum };
}

/** Waits for a page that contains `text`. */
export const shows = (
  { visit }: Pick<Rebuild, "visit">,
  text: string,
  path = "/",
  hook: HookName = "site",
): Promise<Page> =>
  until(
    `${path} of ${hook} shows "${text}"`,
    async () => {
      const page = await visit(path, hook);
      return page.status === 200 && page.body.includes(text) ? page : undefined;
    },
    { pause: 5 },
  );

/** For systemctl. */
export const builderPaths = (hook: HookName): string => paths.map((path) => path(hook)).join(" ");

/** Lines of the generator's unit: what starts in place of Hugo, after the line that says which build it is. */
export const inPlaceOfHugo = (command: string): string =>
  `ExecStartPre=/bin/sh -c 'echo "${beginOfBuild}$$INVOCATION_ID"'\nExecStart=\nExecStart=${command}`;

/** Runs `work` with these lines in the unit's section of its services. */
export async function withDropIn<T>(host: Host, unit: string, lines: string, work: () => Promise<T>): Promise<T> {
  const folder = `/run/systemd/system/${unit}.d`;
  await host.writeFile(`${folder}/taken.conf`, `[Service]\n${lines}\n`);
  await host.inside("systemctl daemon-reload");
  try {
    return await work();
  } finally {
    await host.inside(`rm -r ${folder} && systemctl daemon-reload`);
  }
}
