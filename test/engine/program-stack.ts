/**
 * A stack of pushgate's own program, with all that it talks to: the stand-in edge's API, and machines that are an `ssh`
 * which always gives the same answers. Configured as test/fixtures.ts says.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Edge } from "../../infra/config/settings.ts";
import { type Api, apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone, type ZoneState } from "../fakes/cloudflare/zone.ts";
import { secrets, stackFile } from "../fixtures.ts";
import { type AnsweringSsh, answeringSsh } from "./answering-ssh.ts";
import { type Workspace, workspace } from "./engine.ts";

const hooksAlone = {
  "pushgate:hooks": stackFile["pushgate:hooks"].map(({ site: _site, ...hook }) => hook),
};

/** The declared machines, as another state: what a person writes to leave. */
export const hostsThatAre = (state: string): object[] =>
  stackFile["pushgate:hosts"].map((host) => ({ ...host, state }));

export type ProgramStack = {
  /** First on PATH, and a place for a test's own files. */
  readonly folder: string;
  readonly ssh: AnsweringSsh;
  readonly api: Api;
  readonly stack: Workspace;
  /** Another stack of the same program beside it, with no state: what is left when a state was lost. */
  readonly again: () => Promise<Workspace>;
  readonly close: () => Promise<void>;
};

export type ProgramOptions = {
  /** With the file's published site; its hooks alone when left out. */
  readonly site?: true;
  /** `pushgate:edge`; the file's own, plan pro, when left out. */
  readonly edge?: Pick<Edge, "plan"> & Partial<Edge>;
  /** Taken over, not copied; an empty one on the declared plan when left out. */
  readonly zone?: ZoneState;
  /** Token -> permissions. The API looks into it anew each time. */
  readonly tokens?: Readonly<Record<string, readonly string[]>>;
};

export async function programStack({
  site,
  edge = { plan: "pro" },
  zone,
  tokens,
}: ProgramOptions = {}): Promise<ProgramStack> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-program-"));
  const ssh = answeringSsh(folder);
  const api = await startApi({ zone: zone ?? emptyZone("example.org", edge.plan), ...(tokens && { tokens }) });
  const stacks: Workspace[] = [];
  const again = async (): Promise<Workspace> => {
    const stack = await workspace({
      config: { ...stackFile, ...(!site && hooksAlone), "pushgate:edge": edge, "cloudflare:baseUrl": api.url },
      secrets: { "cloudflare:apiToken": apiToken, "pushgate:secrets": secrets },
      path: [folder],
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
