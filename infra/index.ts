/**
 * The path of a delivery. Read it downward: each line of `path` is a layer, outermost first. `declare` calls them last
 * to first, so that nothing can be reached before what protects it stands; the name that makes the machines findable
 * comes last of all.
 */
import type * as pulumi from "@pulumi/pulumi";
import { localOpenssl } from "./apply/ship.ts";
import { allHostnames } from "./config/hostnames.ts";
import { namesOf } from "./config/served-sites.ts";
import { readEdgeAccess, readSettings } from "./config/settings.ts";
import { bots } from "./edge/bots.ts";
import { canary } from "./edge/canary.ts";
import {
  clientCertificateScript,
  presentClientCertificate,
  readClientCertificate,
  untilPresented,
} from "./edge/client-certificate.ts";
import { dns } from "./edge/dns.ts";
import { tryOut } from "./edge/zone/dry-run.ts";
import { assertFits, rulesOf } from "./edge/zone/fits.ts";
import { inspect, type LiveZone } from "./edge/zone/live-zone.ts";
import { type Keeper, keeper, lock } from "./edge/zone/lock.ts";
import { ruleset } from "./edge/zone/ruleset.ts";
import { declareMachine, look, type Machine, settleMachine, type Wanted } from "./host/index.ts";
import { buildPrograms } from "./host/programs/programs.ts";

type World = Wanted & {
  readonly access: ReturnType<typeof readEdgeAccess>;
  readonly zone: LiveZone;
  readonly keep: Keeper;
  readonly machines: readonly Machine[];
};
type Behind = readonly (pulumi.Resource | undefined)[];

const after = (behind: Behind) => ({ dependsOn: behind.flat().filter((one) => one !== undefined) });

const path = {
  /** Whether all of it lets a request in, as seen from here: what stands between two layers is neither's to know. */
  canary: ({ settings, access }: World, names: ReturnType<typeof dns>) => canary(settings, access, names),

  /** 1 A name for hooks only, and those of published sites; proxied. */
  dns: ({ settings, zone }: World, behind: Behind) => dns(settings, zone.id, after(behind)),

  /** 2 A signed delivery skips what would challenge it; everything else on the name is blocked. */
  waf: ({ settings, zone, keep }: World, behind: Behind) =>
    ruleset(zone, "custom", rulesOf(settings).custom, keep, after(behind)),

  /** 3 Bot management: what rule 2 can't skip is the operator's stated choice. */
  bots: ({ settings, zone }: World, behind: Behind) => bots(settings, zone.id, after(behind)),

  /** 4 Edge to origin: a client certificate of our own, by hostname, ... */
  clientCertificate: ({ settings, zone, clientCertificate }: World, behind: Behind) =>
    presentClientCertificate(zone.id, allHostnames(settings), clientCertificate, after(behind)),

  /** ... a port of its own, strict TLS. */
  origin: ({ settings, zone, keep }: World, behind: Behind) => {
    const { origin, config } = rulesOf(settings);
    return [ruleset(zone, "config", config, keep, after(behind)), ruleset(zone, "origin", origin, keep, after(behind))];
  },

  /** 5 to 9 Firewall, proxy, service manager, receiver, rebuild: see machine.ts. */
  machines: (world: World) => world.machines.map((machine) => declareMachine(machine, world)),

  /** 6 again, when 4 stands: the proxy lets go of the client certificate that was before. */
  settled: (world: World, presented: ReturnType<typeof presentClientCertificate>) => {
    const { settings, access, zone } = world;
    const all = allHostnames(settings);
    return world.machines.map((machine) => {
      const names = namesOf(settings, machine.host);
      const presentedBy = (leaf: string) =>
        Promise.all(names.map((name) => untilPresented(access, zone.id, name, leaf)));
      return settleMachine(
        machine,
        world,
        presentedBy,
        presented.filter((_, i) => names.includes(all[i]!)),
      );
    });
  },
};

async function declare(): Promise<void> {
  const { settings, secrets } = readSettings();
  const bundles = buildPrograms(settings);
  const access = readEdgeAccess();
  const [zone, machines] = await Promise.all([inspect(settings.zone), look(settings, bundles)]);
  assertFits(settings, zone);
  await tryOut(access, settings, zone);
  const keep = keeper(zone);
  const script = clientCertificateScript(settings.zone, settings.edge.generation);
  const clientCertificate = readClientCertificate(localOpenssl("origin pulls", script, {}));
  const world: World = { settings, secrets, bundles, access, zone, keep, machines, clientCertificate };

  const standing = path.machines(world);
  const presented = path.clientCertificate(world, standing);
  const settled = path.settled(world, presented);
  const origin = [...presented, ...path.origin(world, standing)];
  const skipped = path.bots(world, origin);
  const guarded = path.waf(world, [...origin, skipped]);
  const names = path.dns(world, [...standing, ...origin, guarded, ...settled]);
  // The last resource, and so the first that `pulumi destroy` meets.
  lock(keep, names);
  path.canary(world, names);
}

/**
 * The SDK takes a stack for every resource and promise, and looks each of its frames up in source maps: an eighth of a
 * preview's processor time (0.4 s of 3.4 s). Our own files need no maps, as Node strips their types in place.
 */
async function withPlainStacks(work: () => Promise<void>): Promise<void> {
  const { prepareStackTrace } = Error;
  Object.assign(Error, { prepareStackTrace: undefined });
  try {
    await work();
  } finally {
    Object.assign(Error, { prepareStackTrace });
  }
}

await withPlainStacks(declare);
