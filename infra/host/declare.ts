/** The hosts as Pulumi resources: the probe of each, and its layers in the order in which they are applied. */
import * as pulumi from "@pulumi/pulumi";
import { leaving } from "../apply/layer.ts";
import { neverCame } from "../apply/reconcile.ts";
import type { HostReport } from "../apply/report.ts";
import { appliedLayers, apply, applySecrets, lost, probe } from "../apply/ship.ts";
import { namesOf } from "../config/derived.ts";
import type { Credentials, Host, Settings } from "../config/settings.ts";
import { firstApply } from "./first-apply.ts";
import { hostLayers, type LayerName, layerNames, type Made, programsIn } from "./index.ts";
import { originCertificate } from "./origin-certificate/origin-certificate.ts";
import { fitFaults, questionsOf } from "./preflight.ts";
import type { Bundles } from "./programs/programs.ts";
import { judgeSecrets, probedSecrets } from "./secrets/secrets.ts";
import { summaryText } from "./summary.ts";

/** No report of a host that is declared lost: pushgate does not connect to it. */
type ProbedHost = { readonly host: Host; readonly report?: HostReport };

export type Inputs = {
  readonly settings: Settings;
  readonly programs: Bundles;
  readonly secrets: pulumi.Output<Credentials>;
  /** PEM of the CA that signed the client certificate which Cloudflare is to present. */
  readonly clientCa: pulumi.Output<string>;
  readonly signOrigin: (
    request: { hostname: string; hostnames: readonly string[]; csr: pulumi.Input<string> },
    opts: pulumi.CustomResourceOptions,
  ) => pulumi.CustomResource & { readonly certificate: pulumi.Output<string> };
};

/** `last`: the layer that is applied last; Cloudflare's resources wait for it. */
type DeclaredHost = ProbedHost & { readonly component: pulumi.Resource; readonly last: pulumi.Resource };

/** esbuild and other resources make these; a probe needs the paths of the layers only. */
const unknown: Made = { certificate: "", clientCaPem: "", programs: {} };

/** Probes all hosts at once, over one connection each. Throws with all faults of all hosts, before anything changes. */
export async function probeHosts(settings: Settings): Promise<ProbedHost[]> {
  const probes = await Promise.allSettled(
    settings.hosts.map(async (host): Promise<ProbedHost> => {
      if (host.state === "lost") return { host };
      const layers = hostLayers(settings, host, unknown);
      const probed = { ...layers, secrets: probedSecrets(layers.secrets) };
      const report = await probe(host, [...Object.values(probed), ...questionsOf(host, settings)]);
      return { host, report };
    }),
  );
  const failed = probes.flatMap((one) => (one.status === "rejected" ? [(one.reason as Error).message] : []));
  const hosts = probes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const fitness = hosts.flatMap(({ host, report }) => (report ? [fitFaults(host, report, settings)] : []));
  for (const text of fitness.flatMap(({ warnings }) => warnings)) void pulumi.log.warn(text);
  const faults = [...failed, ...fitness.flatMap(({ faults }) => faults)];
  if (faults.length > 0) throw new pulumi.RunError(faults.join("\n"));
  return hosts;
}

export function declareHost({ host, report }: ProbedHost, inputs: Inputs): DeclaredHost {
  const component = new pulumi.ComponentResource("pushgate:index:Host", host.name);
  if (report === undefined) return { host, component, last: lost(host, { parent: component }) };
  const declare = host.state === "absent" ? removeLayers : applyLayers;
  return { host, report, component, last: declare(host, report, inputs, component) };
}

/** In the order of `hostLayers`. The builder's layers leave in reverse order once no hook has a site any more. */
function applyLayers(host: Host, report: HostReport, inputs: Inputs, parent: pulumi.Resource): pulumi.Resource {
  const { settings, programs, secrets, clientCa, signOrigin } = inputs;
  const made = (texts: Partial<Made>) => hostLayers(settings, host, { ...unknown, programs, ...texts });
  const layers = made({});
  const first = firstApply(settings, host, layers, report);
  if (first !== undefined && pulumi.runtime.isDryRun()) void pulumi.log.info(first);
  type Applied = ReturnType<typeof apply>;
  function step(name: LayerName, dependsOn: Applied[]): Applied {
    const opts = { parent, dependsOn };
    const [layer, seen] = [layers[name], report.layers[name]!];
    if (name === "origin-certificate") {
      // After the layer of the key, which prints its request.
      const csr = certificateRequest(host, report, dependsOn[0]!.stdout);
      const signed = signOrigin({ hostname: host.hostname, hostnames: namesOf(settings, host), csr }, opts);
      const certified = signed.certificate.apply((certificate) => made({ certificate })[name]);
      return apply(host, certified, seen, { parent, dependsOn: [signed] });
    }
    if (name === "secrets") {
      const judged = secrets.apply((wanted) => judgeSecrets(layer, seen, wanted));
      return applySecrets(host, layer, judged, opts);
    }
    if (name === "proxy") {
      const trusting = clientCa.apply((clientCaPem) => made({ clientCaPem })[name]);
      return apply(host, trusting, seen, opts);
    }
    const bundles = (programsIn[name] ?? []).flatMap((program) => programs[program] ?? []);
    return apply(host, layer, seen, opts, bundles);
  }

  // `declareClientCa` applies its layer.
  const names = layerNames(layers).filter((name) => name !== "client-ca");
  const leave = names.filter((name) => layers[name].present === false && !neverCame(report.layers[name]!)).reverse();
  let last: Applied[] = [];
  for (const name of [...names.filter((name) => layers[name].present !== false), ...leave]) last = [step(name, last)];
  return last[0]!;
}

/** A good request on the host is the one of its certificate: a changed key layer must not replace it. */
function certificateRequest(host: Host, report: HostReport, made: pulumi.Output<string>): pulumi.Input<string> {
  const found = report.layers.request?.facts[0]?.output;
  if (found) return found;
  if (originCertificate in report.layers["origin-certificate"]!.files)
    void pulumi.log.warn(
      `${host.name}: the certificate request is missing or does not fit the key or the hostname. \`up\` makes another, Cloudflare signs a new origin certificate for it, and the former certificate is revoked.`,
    );
  // A login shell may print before it.
  return made.apply((text) => text.replace(/^[\s\S]*?(?=-----BEGIN CERTIFICATE REQUEST)/, ""));
}

function removeLayers(host: Host, report: HostReport, inputs: Inputs, parent: pulumi.Resource): pulumi.Resource {
  const layers = hostLayers(inputs.settings, host, { ...unknown, programs: inputs.programs });
  let dependsOn: pulumi.Resource[] = [];
  for (const layer of Object.values(layers).reverse())
    dependsOn = [apply(host, leaving(layer), report.layers[layer.name]!, { parent, dependsOn })];
  return dependsOn[0]!;
}

/**
 * Declares the one layer that waits for Cloudflare. `presents` resolves when Cloudflare presents the certificate of this
 * id for every name of the host; it is called in `up` only, and only where the host still trusts another CA.
 */
export function declareClientCa(
  { host, report, component }: DeclaredHost,
  { settings, programs, clientCa }: Inputs,
  { certId, resources }: { readonly certId: pulumi.Input<string>; readonly resources: pulumi.Resource[] },
  presents: (certId: string) => Promise<unknown>,
): pulumi.Resource | undefined {
  if (report === undefined || host.state === "absent" || resources.length === 0) return undefined;
  const seen = report.layers["client-ca"]!;
  const layer = pulumi.all([clientCa, certId]).apply(async ([clientCaPem, id]) => {
    const wanted = hostLayers(settings, host, { ...unknown, programs, clientCaPem })["client-ca"];
    const [ca] = wanted.files;
    const trusted = seen.files[ca!.path]?.text;
    if (!pulumi.runtime.isDryRun() && trusted !== undefined && trusted !== ca!.text) await presents(id);
    return wanted;
  });
  return apply(host, layer, seen, { parent: component, dependsOn: resources });
}

export function summary(settings: Settings, last: readonly (pulumi.Resource | undefined)[]): void {
  if (pulumi.runtime.isDryRun()) return;
  pulumi.all(last.flatMap((one) => (one === undefined ? [] : [one.urn]))).apply(() => {
    const text = summaryText(settings, appliedLayers());
    if (text !== undefined) void pulumi.log.info(text);
  });
}
