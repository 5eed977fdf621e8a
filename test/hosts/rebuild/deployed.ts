/**
 * A host with both sites published, made once per release and copied for each test file that begins there
 * (`../deployed.ts`). Both sites reconcile once an hour. docs opens Hugo to programs and addresses and
 * has small limits; its content is in a closed home, and the members of a group may request its build.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { copyOf, ending, kept, type Original } from "../deployed.ts";
import { startGitServer } from "../lab/git-server.ts";
import type { CopyOptions } from "../lab/host.ts";
import { openDocs } from "./site.ts";
import { bothIdle } from "./status.ts";
import { buildRebuild, type Rebuild, rebuildAround, type Sites } from "./world.ts";

const original: Original<{ readonly git: string; readonly sites: Sites }> = {
  name: "published",
  async deploy(host, folder) {
    const rebuild = await buildRebuild(host, { site: { reconcileMinutes: 60 }, docs: openDocs });
    await rebuild.start();
    await bothIdle(host);
    const git = join(folder, "git");
    cpSync(rebuild.git.folder, git, { recursive: true });
    await rebuild.git.close();
    return { world: rebuild.world, more: { git, sites: rebuild.sites } };
  },
};

/** A copy of the host with published sites, a world and a git host around it. All ends after the tests of the calling file. */
export async function deployedRebuild(
  alias: string,
  copied: Pick<CopyOptions, "diskMegabytes"> = {},
): Promise<Rebuild> {
  const { git: folder, sites } = (await kept(original)).more;
  const git = await startGitServer(folder);
  const world = await copyOf(original, alias, { ...copied, change: git.introduceAgain });
  return ending(rebuildAround(world.hosts[0], world, git, sites), world.hosts[0]);
}
