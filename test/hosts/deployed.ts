/**
 * A machine with every layer on it, and the zone and the state that belong to it, as one `up` of a bare world leaves
 * them: made once a release by whoever asks first, frozen, and copied for each who asks. A copy costs a boot, half a
 * second; an `up` costs ten of both cores. For files that begin where an `up` has ended:
 *
 *   beforeAll(async () => {
 *     world = await deployedWorld("drift");
 *     [host] = world.hosts;
 *   });
 *   afterAll(async () => {
 *     await world?.close();
 *     await host?.kill();
 *   });
 *
 * The argument is what the lab and its ssh call this copy, with an address of its own. The machine's name is "deployed"
 * in all of them, and so are its resources and its hostname: write `host.name` and `hostnameOf(host)`. Hooks, secrets
 * and plan are those of buildWorld; change them by `world.stack.configure` and another `up`. The machine has been
 * booted once since it was brought up, and its guard has proved the sockets since.
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
import { workspace } from "../engine/engine.ts";
import { startApi } from "../fakes/cloudflare/api.ts";
import { openAuthority } from "../fakes/cloudflare/authority.ts";
import type { ZoneState } from "../fakes/cloudflare/zone.ts";
import { bootHost, type Frozen, type Host, thawCopy } from "./lab/host.ts";
import { labFolder } from "./lab/lab.ts";
import { until } from "./lab/process.ts";
import { release } from "./release.ts";
import { buildWorld, type World, worldAround } from "./world.ts";

/** What differs from copy to copy; each of them stands in the state, the stack file or the zone, and nowhere else. */
type Place = { readonly login: string; readonly v4: string; readonly v6: string; readonly api: string };
type Kept = { readonly frozen: Frozen; readonly place: Place; readonly zone: ZoneState };

/** What every copy calls itself, and the stack calls it. */
export const deployedName = "deployed";

const folder = join(labFolder, `deployed-${release}`);
const at = { kept: join(folder, "kept.json"), stack: join(folder, "stack"), authority: join(folder, "authority") };
const failure = join(folder, "failure");

const place = (host: Host, api: string): Place => ({
  login: `root@${host.alias}`,
  v4: host.address,
  v6: host.address6!,
  api,
});

/** A copy of the deployed machine, and a world of its own around it. */
export async function deployedWorld(
  alias: string,
  options: { readonly path?: readonly string[] } = {},
): Promise<World & { readonly hosts: readonly [Host] }> {
  const { frozen, place: from, zone } = await kept();
  const own = mkdtempSync(join(tmpdir(), "pushgate-ca-"));
  cpSync(at.authority, own, { recursive: true });
  const [host, authority] = await Promise.all([thawCopy(frozen, alias), openAuthority(own)]);
  const moved = (text: string, to: Place): string =>
    (Object.keys(from) as (keyof Place)[]).reduce((moving, what) => moving.replaceAll(from[what], to[what]), text);

  const api = await startApi({ zone: JSON.parse(moved(JSON.stringify(zone), place(host, from.api))), authority });
  const stack = await workspace({ ...options, from: at.stack });
  for (const file of [stack.stackFile, join(stack.folder, "state/.pulumi/stacks/pushgate/test.json")])
    writeFileSync(file, moved(readFileSync(file, "utf8"), place(host, api.url)));
  const world = await worldAround([host], api, stack);
  await until("the guard has proved the copy", async () =>
    (await host.read("cat /run/pushgate-guard/verdict || true")) === "proven" ? true : undefined,
  );
  const close = async () => {
    await world.close();
    await authority.close();
  };
  return { ...world, hosts: [host], close };
}

/** The one that is copied: made here, or waited for. */
async function kept(): Promise<Kept> {
  if (mkdirSync(folder, { recursive: true }) !== undefined) await deploy();
  await until(
    "another file has brought the machine up",
    () => existsSync(at.kept) || existsSync(failure) || undefined,
    {
      timeout: 200_000,
    },
  );
  if (existsSync(failure)) throw new Error(`the machine to be copied was not brought up: ${readFileSync(failure)}`);
  return JSON.parse(readFileSync(at.kept, "utf8"));
}

async function deploy(): Promise<void> {
  try {
    const host = await bootHost({ name: deployedName, release, variant: "packages" });
    const world = await buildWorld([host]);
    const up = await world.stack.up();
    if (up.code !== 0) throw new Error(up.stdout);
    const frozen = await host.freeze();
    cpSync(join(world.stack.folder, "state"), join(at.stack, "state"), { recursive: true });
    copyFileSync(world.stack.stackFile, join(at.stack, basename(world.stack.stackFile)));
    cpSync(world.api.authority.folder, at.authority, { recursive: true });
    const all: Kept = { frozen, place: place(host, world.api.url), zone: world.api.zone };
    await world.close();
    // Whole under its name, or not there: others wait for it.
    writeFileSync(`${at.kept}.new`, JSON.stringify(all));
    renameSync(`${at.kept}.new`, at.kept);
  } catch (error) {
    writeFileSync(failure, String(error));
  }
}
