/**
 * A stack of pushgate's own program under the real engine, with the configuration of test/fixtures.ts, the fake
 * Cloudflare and the fake `ssh`.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { Edge } from "../../infra/config/settings.ts";
import type { Drift } from "../../infra/contract.ts";
import { apiToken, startApi } from "../fakes/cloudflare/api.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { secrets, stackFile } from "../fixtures.ts";
import { type Run, type Workspace, type WorkspaceOptions, workspace } from "./engine.ts";
import { fakeSsh } from "./fake-ssh.ts";

const withoutSites = {
  "pushgate:hooks": stackFile["pushgate:hooks"].map(({ site: _site, ...hook }) => hook),
};

/** The declared hosts with another state, such as absent. */
export const hostsThatAre = (state: string): object[] =>
  stackFile["pushgate:hosts"].map((host) => ({ ...host, state }));

export function succeeded(run: Run): Run {
  expect(run.stdout).not.toContain("error:");
  expect(run.code, run.stdout + run.stderr).toBe(0);
  return run;
}

/** The steps at Cloudflare, such as "update custom rules rules". */
export const atCloudflare = ({ steps }: Run): string[] =>
  steps
    .filter(({ type }) => type.startsWith("cloudflare:"))
    .map(({ op, name, changed }) => [op, name, ...changed].join(" "))
    .sort();

/** What `npx pushgate audit --json` printed. */
export const itemsOf = ({ stdout }: Run): Drift[] =>
  stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Drift]));

export type ProgramStack = Awaited<ReturnType<typeof programStack>>;

type ProgramOptions = Pick<WorkspaceOptions, "starts" | "passphrase"> & {
  /** With the site of the first hook; if left out, without a site. */
  readonly site?: true;
  /** `pushgate:edge`; plan pro if left out. */
  readonly edge?: Pick<Edge, "plan"> & Partial<Edge>;
};

export async function programStack({ site, edge = { plan: "pro" }, ...options }: ProgramOptions = {}) {
  /** First on PATH. A test may put files into it. */
  const folder = mkdtempSync(join(tmpdir(), "pushgate-program-"));
  const ssh = fakeSsh(folder);
  const api = await startApi({ zone: emptyZone("example.org", edge.plan) });
  const stacks: Workspace[] = [];
  /** Another stack of the same program without a state, as after a loss of the state. */
  const again = async (): Promise<Workspace> => {
    const own = { "pushgate:edge": edge, "cloudflare:baseUrl": api.url };
    const stack = await workspace({
      config: { ...stackFile, ...(!site && withoutSites), ...own },
      secrets: { "cloudflare:apiToken": apiToken, "pushgate:secrets": secrets },
      path: [folder],
      ...options,
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
