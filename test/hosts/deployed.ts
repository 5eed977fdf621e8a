/**
 * A host with every layer, and its zone and state, as one `up` of a bare world leaves them. The first test file that
 * calls `deployedWorld` makes this original once per release and freezes it; each caller gets a copy. A copy costs a boot,
 * half a second; an `up` costs ten seconds of both cores. `rebuild/deployed.ts` has an original with published sites.
 *
 *     const { world, host } = await deployedWorld("drift");
 *
 * The argument is the alias of this copy in the lab and in ssh; each copy has its own address. All copies have the host
 * name "deployed", and their resources and hostname contain it: write `host.name` and `hostnameOf(host)`. Hooks,
 * secrets and plan are those of buildWorld. The host has booted once since its `up`, and its guard has proved the sockets
 * since.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll } from "vitest";
import { paths } from "../../infra/host/paths.ts";
import { workspace } from "../engine/engine.ts";
import { startApi } from "../fakes/cloudflare/api.ts";
import { openAuthority } from "../fakes/cloudflare/authority.ts";
import type { ZoneState } from "../fakes/cloudflare/zone.ts";
import { bootHost, type CopyOptions, type Frozen, type Host, thawCopy } from "./lab/host.ts";
import { labFolder } from "./lab/lab.ts";
import { until } from "./lab/process.ts";
import { release } from "./release.ts";
import { buildWorld, type World, worldAround } from "./world.ts";

/** The texts that differ between copies. They occur only in the state, the stack file and the zone. */
type Place = { readonly login: string; readonly v4: string; readonly v6: string; readonly api: string };
type Kept<More> = { readonly frozen: Frozen; readonly place: Place; readonly zone: ZoneState; readonly more: More };

/** The host name of every copy, and its name in the stack. */
const deployedName = "deployed";

/** How an original is made. `More`: what its maker wants to know of it, as JSON. */
export type Original<More> = {
  /** Unique among the originals. */
  readonly name: string;
  /**
   * Sets up the host, which is then frozen, and its world, which is then closed. What the copies need goes into `folder`,
   * which stays until the lab ends.
   */
  readonly deploy: (host: Host, folder: string) => Promise<{ readonly world: World; readonly more: More }>;
};

type Copy = World & { readonly hosts: readonly [Host] };

const bare: Original<null> = {
  name: "deployed",
  async deploy(host) {
    const world = await buildWorld([host]);
    const up = await world.stack.up();
    if (up.code !== 0) throw new Error(up.stdout);
    return { world, more: null };
  },
};

/** Returns the world, which ends with its hosts after the tests of the calling file. */
export function ending<W extends { close(): Promise<void> }>(world: W, ...hosts: readonly Host[]): W {
  afterAll(async () => {
    await world.close();
    await Promise.all(hosts.map((host) => host.kill()));
  });
  return world;
}

/** Boots a copy of the deployed host and starts a world around it. Both end after the tests of the calling file. */
export async function deployedWorld(alias: string) {
  const world = await copyOf(bare, alias);
  const [host] = world.hosts;
  return { world: ending(world, host), host };
}

export const placeOf = (host: Host, api: string): Place => ({
  login: `root@${host.alias}`,
  v4: host.address,
  v6: host.address6!,
  api,
});

/** Where an original is kept. */
function folderOf({ name }: Pick<Original<unknown>, "name">) {
  const folder = join(labFolder, `${name}-${release}`);
  const at = (part: string) => join(folder, part);
  return { folder, kept: at("kept.json"), stack: at("stack"), authority: at("authority"), failure: at("failure") };
}

/** Boots a copy of an original and starts a world around it. */
export async function copyOf<More>(original: Original<More>, alias: string, copied: CopyOptions = {}): Promise<Copy> {
  const { frozen } = await kept(original);
  const host = await thawCopy(frozen, alias, copied);
  return { ...(await worldIn(folderOf(original).folder, host)), hosts: [host] };
}

/** A world around a host at another place, with the zone, the stack and the authority that a folder keeps. */
export async function worldIn(folder: string, host: Host): Promise<World> {
  const { place, zone } = JSON.parse(readFileSync(join(folder, "kept.json"), "utf8")) as Kept<unknown>;
  const own = mkdtempSync(join(tmpdir(), "pushgate-ca-"));
  cpSync(join(folder, "authority"), own, { recursive: true });
  const authority = await openAuthority(own);
  const moved = (text: string, api: string): string => {
    const to = placeOf(host, api);
    return (Object.keys(place) as (keyof Place)[]).reduce(
      (moving, what) => moving.replaceAll(place[what], to[what]),
      text,
    );
  };
  const api = await startApi({ zone: JSON.parse(moved(JSON.stringify(zone), place.api)), authority });
  const stack = await workspace({ from: join(folder, "stack") });
  for (const file of [stack.stackFile, join(stack.folder, "state/.pulumi/stacks/pushgate/test.json")])
    writeFileSync(file, moved(readFileSync(file, "utf8"), api.url));
  const world = await worldAround([host], api, stack);
  await until("the guard has proved the host", async () =>
    (await host.read(`cat ${paths.guard}/verdict || true`)) === "proven" ? true : undefined,
  );
  const close = async () => {
    await world.close();
    await authority.close();
  };
  return { ...world, close };
}

/** The frozen original. The first caller makes it; every other caller waits for it. */
export async function kept<More>(original: Original<More>): Promise<Kept<More>> {
  const at = folderOf(original);
  if (mkdirSync(at.folder, { recursive: true }) !== undefined) await make(original);
  await until(
    "another test file has deployed the host",
    () => existsSync(at.kept) || existsSync(at.failure) || undefined,
    { timeout: 350_000 },
  );
  if (existsSync(at.failure)) throw new Error(`the host to copy was not deployed: ${readFileSync(at.failure)}`);
  return JSON.parse(readFileSync(at.kept, "utf8"));
}

async function make<More>(original: Original<More>): Promise<void> {
  const at = folderOf(original);
  try {
    const host = await bootHost({ name: deployedName, release, variant: "packages" });
    const { world, more } = await original.deploy(host, at.folder);
    const frozen = await host.freeze();
    cpSync(join(world.stack.folder, "state"), join(at.stack, "state"), { recursive: true });
    copyFileSync(world.stack.stackFile, join(at.stack, basename(world.stack.stackFile)));
    cpSync(world.api.authority.folder, at.authority, { recursive: true });
    const all: Kept<More> = { frozen, place: placeOf(host, world.api.url), zone: world.api.zone, more };
    await world.close();
    // The rename publishes the file complete: other test files wait for its name.
    writeFileSync(`${at.kept}.new`, JSON.stringify(all));
    renameSync(`${at.kept}.new`, at.kept);
  } catch (error) {
    writeFileSync(at.failure, String(error));
  }
}
