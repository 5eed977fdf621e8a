/**
 * Applies layers to a throwaway host without Pulumi's engine and without Cloudflare, by running the scripts that
 * `ship.ts` would send. For tests of the host alone; saves about a minute.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { applyScript } from "../../infra/apply/manifest.ts";
import { settled } from "../../infra/config/derived.ts";
import { shape } from "../../infra/config/schema.ts";
import type { Credentials, Settings } from "../../infra/config/settings.ts";
import { type HostLayers, hostLayers } from "../../infra/host/index.ts";
import { paths } from "../../infra/host/paths.ts";
import { type Bundles, buildPrograms, type Program } from "../../infra/host/programs/programs.ts";
import { secretLines } from "../../infra/host/secrets/secrets.ts";
import type { Host } from "./lab/host.ts";
import type { Ran } from "./lab/process.ts";

export type LayerName = keyof HostLayers;

/** In the order of an apply; a removal uses the reverse order. No site here has results to report. */
export const rebuildLayers = ["builder-program", "egress", "builder", "site"] as const satisfies LayerName[];
export const beneath = ["secrets", "receiver-program", "receiver"] as const satisfies LayerName[];

/** The settings of one host with these hooks, without the checks between keys. */
export const settingsOf = (host: Host, hooks: readonly object[]): Settings =>
  settled(
    v.parse(shape, {
      zone: "example.org",
      edge: { plan: "pro" },
      hosts: [{ name: host.name, ssh: host.name, address: host.address, hostname: "hooks.example.org" }],
      hooks,
      limits: {},
    }),
  );

export class DirectApply {
  private readonly host: Host;
  private stamps = 0;
  constructor(host: Host) {
    this.host = host;
  }

  private async layers(settings: Settings): Promise<{ layers: HostLayers; bundles: Bundles }> {
    const bundles = await buildPrograms(settings);
    const made = { certificate: "", clientCaPem: "", programs: bundles };
    return { layers: hostLayers(settings, settings.hosts[0]!, made), bundles };
  }

  /** Applies the layers in order and returns the result of the last. Stops at the first layer that fails. */
  async apply(settings: Settings, names: readonly LayerName[], secrets: Credentials = {}): Promise<Ran> {
    const { layers, bundles } = await this.layers(settings);
    let ran: Ran | undefined;
    for (const name of names) {
      const layer = layers[name];
      const bundle = bundles[name.replace("-program", "") as Program];
      if (layer.present !== false && name.endsWith("-program")) await this.send(bundle!);
      this.stamps += 1;
      const stamp = this.stamps.toString(16).padStart(12, "0");
      const input = name === "secrets" ? secretLines(secrets) : "";
      const script = applyScript(layer, layer.present !== false ? stamp : `absent-${stamp}`, paths.state, input);
      const unit = "systemd-run --quiet --wait --pipe --collect --unit=pushgate-apply /bin/sh -s";
      ran = await this.host.inside(unit, { stdin: script, check: false, timeout: 300_000 });
      if (ran.code !== 0) break;
    }
    return ran!;
  }

  private async send({ file, sha256 }: { file: string; sha256: string }): Promise<void> {
    const bytes = readFileSync(fileURLToPath(new URL(`../../infra/${file}`, import.meta.url)), "utf8");
    const target = `${paths.incoming}/${sha256}.cjs`;
    await this.host.inside(`mkdir -p ${paths.incoming} && cat >${target}`, { stdin: bytes });
  }
}
