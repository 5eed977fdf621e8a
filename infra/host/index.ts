/**
 * Layers 5 to 9 on one machine: what is asked of it before anything is declared, and its layers in the order they are
 * applied. index.ts says where this stands in a delivery's path.
 */
import type { AuthenticatedOriginPulls } from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { type HostLayer, leaving } from "../apply/layer.ts";
import { neverCame } from "../apply/reconcile.ts";
import type { HostReport } from "../apply/report.ts";
import { apply, applySecrets, lost, probe, sendBundle } from "../apply/ship.ts";
import { namesOf } from "../config/served-sites.ts";
import type { Host, Settings } from "../config/settings.ts";
import type { OriginPulls } from "../edge/client-certificate.ts";
import { originCertificate } from "../edge/origin-certificate.ts";
import { type HostLayers, hostLayers, rebuilds } from "./layers.ts";
import { readCsr } from "./origin-key/origin-key.ts";
import { fitFaults } from "./preflight.ts";
import type { Bundles } from "./programs/programs.ts";
import { type HookSecrets, judgeSecrets, probedSecrets } from "./secrets/secrets.ts";

/** One machine as it answered, and what it is to become. */
export type Machine = {
  readonly host: Host;
  /** Absent for a machine that is lost: nobody asked it. */
  readonly report?: HostReport;
};

/** Public texts that are known only later stand empty here: a probe asks for paths, not contents. */
const unknown = { certificate: "", originPullCa: "" };

/** The machine's CSR is no layer's fact: what it should say is not known before the machine answers. */
const request = (host: Host) => ({
  name: "request",
  files: [],
  owns: [],
  facts: [{ name: "certificate request", read: readCsr(host) }],
});

/** Asks all machines at once, one connection each; throws with all faults of all of them, before anything is declared. */
export async function look(settings: Settings, bundles: Bundles): Promise<Machine[]> {
  const looked = await Promise.allSettled(
    settings.hosts.map(async (host): Promise<Machine> => {
      if (host.state === "lost") return { host };
      const layers = hostLayers(settings, host, { ...unknown, programs: bundles });
      const asked = { ...layers, secrets: probedSecrets(settings, layers.secrets), request: request(host) };
      return { host, report: await probe(host, Object.values(asked)) };
    }),
  );
  const failed = looked.flatMap((one) =>
    one.status === "rejected" ? [String(one.reason?.message ?? one.reason)] : [],
  );
  const machines = looked.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const fitness = machines.flatMap(({ host, report }) => (report ? [fitFaults(host, report, settings)] : []));
  for (const text of fitness.flatMap(({ warnings }) => warnings)) void pulumi.log.warn(text);
  const faults = [...failed, ...fitness.flatMap(({ faults }) => faults)];
  if (faults.length > 0) throw new pulumi.RunError(faults.join("\n"));
  return machines;
}

export type Wanted = {
  readonly settings: Settings;
  readonly bundles: Bundles;
  readonly secrets: pulumi.Output<HookSecrets>;
  readonly originPulls: pulumi.Output<OriginPulls>;
};

/** Made beside a key and therefore secret, but public: unmarked, so that preview can show what changes in the proxy. */
const publicCa = (originPulls: Wanted["originPulls"]) => pulumi.unsecret(originPulls.apply(({ ca }) => ca));

/** Declares one machine's layers, each after the one before it; returns the last, for the edge to wait for. */
export function declareMachine({ host, report }: Machine, wanted: Wanted): pulumi.Resource {
  if (report === undefined) return lost(host);
  return host.state === "absent" ? remove(host, report, wanted) : build(host, report, wanted);
}

/** Keys before what is signed with them, the receiver before the proxy, the proxy before the port is guarded. */
function build(host: Host, report: HostReport, { settings, bundles, secrets, originPulls }: Wanted): pulumi.Resource {
  const seen = (name: string) => report.layers[name]!;
  const text = (tls: Partial<Parameters<typeof hostLayers>[2]>) =>
    hostLayers(settings, host, { ...unknown, programs: bundles, ...tls });
  const layers = text({});
  const then = (layer: pulumi.Input<HostLayer>, name: keyof HostLayers, after: pulumi.Resource[]) =>
    apply(host, layer, seen(name), { dependsOn: after });

  const packages = then(layers.packages, "packages", []);
  const keys = then(layers["origin-key"], "origin-key", [packages]);
  // A good request on the machine is the one the certificate was made from: a changed keys layer must not replace it.
  const csr = seen("request").facts[0]?.output || keys.stdout;
  if (csr === keys.stdout && Object.keys(seen("origin-certificate").files).length > 0)
    void pulumi.log.warn(
      `${host.name}: its certificate request is gone, or fits its key or hostname no longer: up makes another, the edge ` +
        "signs a new origin certificate for it, and the former is revoked",
    );
  const signed = originCertificate(
    { hostname: host.hostname, hostnames: namesOf(settings, host), csr },
    { dependsOn: [keys] },
  );
  const certificate = then(
    signed.certificate.apply((pem) => text({ certificate: pem })["origin-certificate"]),
    "origin-certificate",
    [signed],
  );
  const judged = secrets.apply((wanted) => judgeSecrets(settings, layers.secrets, seen("secrets"), wanted));
  const credentials = applySecrets(host, layers.secrets, judged, { dependsOn: [certificate] });
  const bundle = sendBundle(host, bundles.receiver, layers["receiver-program"], seen("receiver-program"), {
    dependsOn: [credentials],
  });
  const receiver = then(layers.receiver, "receiver", [bundle]);
  const coming = ["builder-program", "egress", "builder", "site"] satisfies (keyof HostLayers)[];
  // Last come, first gone, where no hook has a site any more; of a machine on which none ever had one, nothing is asked.
  const rebuild = rebuilds(settings) ? coming : coming.toReversed().filter((name) => !neverCame(seen(name)));
  const rebuilt = rebuild.reduce<pulumi.Resource>(
    (after, name) =>
      name === "builder-program" && bundles.builder !== undefined
        ? sendBundle(host, bundles.builder, layers["builder-program"], seen(name), { dependsOn: [after] })
        : then(layers[name], name, [after]),
    receiver,
  );
  const routing = then(layers.routing, "routing", [rebuilt]);
  const proxy = then(
    publicCa(originPulls).apply((ca) => text({ originPullCa: ca }).proxy),
    "proxy",
    [routing],
  );
  const firewall = then(layers.firewall, "firewall", [proxy]);
  return then(layers.guard, "guard", [firewall]);
}

/**
 * The one layer that waits for the edge: from here on the machine trusts no client certificate but the present one.
 * `presented` resolves when the edge presents that of this id for every name of the machine; it is asked only where the
 * machine trusts another still.
 */
export function settleMachine(
  { host, report }: Machine,
  { settings, bundles, originPulls }: Wanted,
  presented: (certId: string) => Promise<unknown>,
  [pull, ...more]: readonly AuthenticatedOriginPulls[],
): pulumi.Resource | undefined {
  if (report === undefined || host.state === "absent" || pull === undefined) return undefined;
  const seen = report.layers["client-ca"]!;
  const layer = pulumi.all([publicCa(originPulls), pull.configs]).apply(async ([originPullCa, [config]]) => {
    const { "client-ca": pulls } = hostLayers(settings, host, { ...unknown, programs: bundles, originPullCa });
    const [ca] = pulls.files;
    const trusted = seen.files[ca!.path]?.text;
    if (!pulumi.runtime.isDryRun() && trusted !== undefined && trusted !== ca!.text) await presented(config!.certId!);
    return pulls;
  });
  return apply(host, layer, seen, { dependsOn: [pull, ...more] });
}

/** Last come, first gone: the guard must not put back what is being taken away. */
function remove(host: Host, report: HostReport, { settings, bundles }: Wanted): pulumi.Resource {
  const layers = Object.values(hostLayers(settings, host, { ...unknown, programs: bundles })).reverse();
  let after: pulumi.Resource[] = [];
  for (const layer of layers) after = [apply(host, leaving(layer), report.layers[layer.name]!, { dependsOn: after })];
  return after[0]!;
}
