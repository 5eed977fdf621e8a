/**
 * A stack of pushgate's own program under the real engine, with the configuration of test/fixtures.ts, the fake
 * Cloudflare and the fake `ssh`.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Edge } from "../../infra/config/settings.ts";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone, type ZoneState } from "../fakes/cloudflare/zone.ts";
import { secrets, stackFile } from "../fixtures.ts";
import { type Workspace, workspace } from "./engine.ts";
import { type FakeSsh, fakeSsh } from "./fake-ssh.ts";

const withoutSites = {
  "pushgate:hooks": stackFile["pushgate:hooks"].map(({ site: _site, ...hook }) => hook),
};

/** The declared hosts with another state, such as absent. */
export const hostsThatAre = (state: string): object[] =>
  stackFile["pushgate:hosts"].map((host) => ({ ...host, state }));

export type ProgramStack = {
  /** First on PATH. A test may put files into it. */
  readonly folder: string;
  readonly ssh: FakeSsh;
  readonly api: Api;
  readonly stack: Workspace;
  /** Another stack of the same program without a state, as after a loss of the state. */
  readonly again: () => Promise<Workspace>;
  readonly close: () => Promise<void>;
};

export type ProgramOptions = {
  /** With the site of the first hook; if left out, without a site. */
  readonly site?: true;
  /** `pushgate:edge`; plan pro if left out. */
  readonly edge?: Pick<Edge, "plan"> & Partial<Edge>;
  /** Used, not copied; if left out, an empty zone on the declared plan. */
  readonly zone?: ZoneState;
  /** Token -> permissions. The fake reads it at each request. */
  readonly tokens?: Readonly<Record<string, readonly string[]>>;
  readonly starts?: true;
};

export async function programStack({
  site,
  edge = { plan: "pro" },
  zone,
  tokens,
  starts,
}: ProgramOptions = {}): Promise<ProgramStack> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-program-"));
  const ssh = fakeSsh(folder);
  const api = await startApi({ zone: zone ?? emptyZone("example.org", edge.plan), ...(tokens && { tokens }) });
  const stacks: Workspace[] = [];
  const again = async (): Promise<Workspace> => {
    const stack = await workspace({
      config: { ...stackFile, ...(!site && withoutSites), "pushgate:edge": edge, "cloudflare:baseUrl": api.url },
      secrets: { "cloudflare:apiToken": apiToken, "pushgate:secrets": secrets },
      path: [folder],
      ...(starts && { starts }),
    });
    stacks.push(stack);
    return stack;
  };
  const stack = await again();
  const close = async () => {
    for (const one of stacks) one.close();
    await api.close();
    rmSync(folder, { recursive: true });
  };
  return { folder, ssh, api, stack, again, close };
}
