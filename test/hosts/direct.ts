/**
 * Layers straight onto a throwaway host, without engine and edge: what `ship.ts` would send, sent by hand. For what is the
 * machine's side alone: no edge, no engine, and a minute less.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { applyScript, probeScript } from "../../infra/apply/manifest.ts";
import { reconcile, type Verdict } from "../../infra/apply/reconcile.ts";
import { parseReport } from "../../infra/apply/report.ts";
import { settled } from "../../infra/config/derived.ts";
import { shape } from "../../infra/config/schema.ts";
import type { Settings } from "../../infra/config/settings.ts";
import { type HostLayers, hostLayers } from "../../infra/host/index.ts";
import { paths } from "../../infra/host/paths.ts";
import { type Bundles, buildPrograms } from "../../infra/host/programs/programs.ts";
import { type HookSecrets, secretLines } from "../../infra/host/secrets/secrets.ts";
import type { Host } from "./lab/host.ts";
import type { Ran } from "./lab/process.ts";

export type LayerName = keyof HostLayers;

/** In the order in which they come; leaving is the other way round. */
export const rebuildLayers = ["builder-program", "egress", "builder", "site"] as const satisfies LayerName[];
export const beneath = ["secrets", "receiver-program", "receiver"] as const satisfies LayerName[];

/** As the stack's configuration would say it, past the checks of what one key means for another. */
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

export class Direct {
  private readonly host: Host;
  private stamps = 0;
  constructor(host: Host) {
    this.host = host;
  }

  private layers(settings: Settings): { layers: HostLayers; bundles: Bundles } {
    const bundles = buildPrograms(settings);
    const made = { certificate: "", originPullCa: "", programs: bundles };
    return { layers: hostLayers(settings, settings.hosts[0]!, made), bundles };
  }

  /** The last one's end; stops at the first that fails. */
  async apply(settings: Settings, names: readonly LayerName[], secrets: HookSecrets = {}): Promise<Ran> {
    const { layers, bundles } = this.layers(settings);
    let ran: Ran | undefined;
    for (const name of names) {
      const layer = layers[name];
      if (layer.present !== false && name === "receiver-program") await this.send(bundles.receiver);
      if (layer.present !== false && name === "builder-program") await this.send(bundles.builder!);
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

  /** What a preview says of these layers. */
  async look(settings: Settings, names: readonly LayerName[]): Promise<Record<string, Verdict>> {
    const layers = this.layers(settings).layers;
    const asked = names.map((name) => layers[name]);
    const { stdout } = await this.host.inside("sh -s", { stdin: probeScript(asked), timeout: 60_000 });
    const report = parseReport(stdout, names as string[]);
    return Object.fromEntries(asked.map((layer) => [layer.name, reconcile(layer, report.layers[layer.name]!)]));
  }
}
