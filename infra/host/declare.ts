/** The hosts as Pulumi resources: the probe of each, and its layers in the order in which they are applied. */
import * as pulumi from "@pulumi/pulumi";
import { leaving } from "../apply/layer.ts";
import { neverCame } from "../apply/reconcile.ts";
import type { HostReport } from "../apply/report.ts";
import { HostDown } from "../apply/run-on-host.ts";
import { appliedLayers, apply, applySecrets, kept, lost, probe } from "../apply/ship.ts";
import { namesOf } from "../config/derived.ts";
import type { Credentials, Host, Settings } from "../config/settings.ts";
import { commandOf, driftMessage, lockOf, nameOf } from "../contract.ts";
import { firstApply } from "./first-apply.ts";
import { hostLayers, type LayerName, layerNames, type Made, programsIn } from "./index.ts";
import { originCertificate } from "./origin-certificate/origin-certificate.ts";
import { fitFaults, questionsOf } from "./preflight.ts";
import type { Bundles } from "./programs/programs.ts";
import { judgeSecrets, probedSecrets } from "./secrets/secrets.ts";
import { summaryText } from "./summary.ts";

/**
 * No report of a host that is declared lost: pushgate does not connect to it. Nor of one that is `down`, which says why;
 * `state`: the names of all resources in the state.
 */
type ProbedHost = { readonly host: Host; readonly report?: HostReport; readonly down?: Down };
type Down = { readonly why: string; readonly state: ReadonlySet<string> };

export type Inputs = {
  readonly settings: Settings;
  readonly programs: Bundles;
  readonly secrets: pulumi.Output<Credentials>;
  readonly zoneId: string;
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

/**
 * Probes all hosts at once, over one connection each. Throws with all faults of all hosts, before anything changes. A host
 * that is down is none where `up` has applied it before and another host answers (decision 038).
 */
export async function probeHosts(settings: Settings): Promise<ProbedHost[]> {
  const probes = await Promise.allSettled(
    settings.hosts.map(async (host): Promise<ProbedHost> => {
      if (host.state === "lost") return { host };
      const layers = hostLayers(settings, host, unknown);
      const probed = { ...layers, secrets: probedSecrets(layers.secrets, settings) };
      const report = await probe(host, [...Object.values(probed), ...questionsOf(host, settings)]);
      return { host, report };
    }),
  );
  const answers = probes.some((one) => one.status === "fulfilled" && one.value.report !== undefined);
  const isDown = probes.some((one) => one.status === "rejected" && one.reason instanceof HostDown);
  const state = answers && isDown ? await namesInState() : new Set<string>();
  const failed: string[] = [];
  const hosts = probes.flatMap((one, i): ProbedHost[] => {
    if (one.status === "fulfilled") return [one.value];
    const [host, { message: why }] = [settings.hosts[i]!, one.reason as Error];
    const isKept = one.reason instanceof HostDown && host.state === "present" && state.has(lockOf(host));
    if (isKept) return [{ host, down: { why, state } }];
    failed.push(why);
    return [];
  });
  const fitness = hosts.flatMap(({ host, report }) => (report ? [fitFaults(host, report, settings)] : []));
  for (const text of fitness.flatMap(({ warnings }) => warnings)) void pulumi.log.warn(text);
  const faults = [...failed, ...fitness.flatMap(({ faults }) => faults)];
  if (faults.length > 0) throw new pulumi.RunError(faults.join("\n"));
  return hosts;
}

/** By the backend, as the engine shows a program no state. */
async function namesInState(): Promise<ReadonlySet<string>> {
  const stackName = pulumi.getStack();
  const { outputs } = await pulumi.runtime.invoke("pulumi:pulumi:readStackResourceOutputs", { stackName });
  return new Set(Object.keys(outputs).map(nameOf));
}

export function declareHost({ host, report, down }: ProbedHost, inputs: Inputs): DeclaredHost {
  const component = new pulumi.ComponentResource("pushgate:index:Host", host.name);
  if (down !== undefined) return { host, down, component, last: keepLayers(host, down, inputs, component) };
  if (report === undefined) return { host, component, last: lost(host, { parent: component }) };
  const declare = host.state === "absent" ? removeLayers : applyLayers;
  return { host, report, component, last: declare(host, report, inputs, component) };
}

/** Without the one that `declareClientCa` declares. */
const beforeCloudflare = (layers: ReturnType<typeof hostLayers>): LayerName[] =>
  layerNames(layers).filter((name) => name !== "client-ca");

/** In the order of `hostLayers`. The builder's layers leave in reverse order once no hook has a site any more. */
function applyLayers(host: Host, report: HostReport, inputs: Inputs, parent: pulumi.Resource): pulumi.Resource {
  const { settings, programs, secrets, zoneId, clientCa, signOrigin } = inputs;
  const made = (texts: Partial<Made>) => hostLayers(settings, host, { ...unknown, programs, zoneId, ...texts });
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
      const judged = secrets.apply((wanted) => judgeSecrets(layer, seen, settings, wanted));
      return applySecrets(host, layer, judged, opts);
    }
    if (name === "proxy") {
      const trusting = clientCa.apply((clientCaPem) => made({ clientCaPem })[name]);
      return apply(host, trusting, seen, opts);
    }
    const bundles = (programsIn[name] ?? []).flatMap((program) => programs[program] ?? []);
    return apply(host, layer, seen, opts, bundles);
  }

  const names = beforeCloudflare(layers);
  const leave = names.filter((name) => layers[name].present === false && !neverCame(report.layers[name]!)).reverse();
  let last: Applied[] = [];
  for (const name of [...names.filter((name) => layers[name].present !== false), ...leave]) last = [step(name, last)];
  return last[0]!;
}

/** A good request on the host is the one of its certificate: a changed key layer must not replace it. */
function certificateRequest(host: Host, report: HostReport, made: pulumi.Output<string>): pulumi.Input<string> {
  const isGood = report.layers["origin-key"]?.facts[0]?.output === "valid";
  const found = report.layers.request?.facts[0]?.output;
  if (isGood && found) return found;
  if (originCertificate in report.layers["origin-certificate"]!.files)
    void pulumi.log.warn(
      `${host.name}: the certificate request is missing or does not fit the key or the hostname. \`up\` makes another, Cloudflare signs a new origin certificate for it, and the former certificate is revoked.`,
    );
  // A login shell may print before it.
  return made.apply((text) => text.replace(/^[\s\S]*?(?=-----BEGIN CERTIFICATE REQUEST)/, ""));
}

/** A host that is down: each of its resources stays as it is in the state, and what is not there has to wait. */
function keepLayers(host: Host, { state }: Down, { settings, signOrigin }: Inputs, parent: pulumi.Resource) {
  let dependsOn: pulumi.Resource[] = [];
  for (const layer of beforeCloudflare(hostLayers(settings, host, unknown))) {
    const opts = { parent, dependsOn, ignoreChanges: ["*"] };
    if (layer === "origin-certificate")
      dependsOn = [signOrigin({ hostname: host.hostname, hostnames: [], csr: "" }, opts)];
    const name = commandOf(host, layer);
    if (state.has(name)) dependsOn = [kept(name, { parent, dependsOn }, layer === "secrets")];
  }
  return dependsOn[0]!;
}

/** The last resource of all fails for each host that is down. A preview shows it as a step, so none is clean. */
export function rejectDown(hosts: readonly DeclaredHost[], dependsOn: pulumi.Resource[]): void {
  for (const { host, down, component: parent } of hosts) {
    if (down === undefined) continue;
    if (pulumi.runtime.isDryRun()) void pulumi.log.warn(`${down.why}\n  \`up\` finishes the other hosts, then fails.`);
    const item = { item: "ssh", kind: "unreachable", before: null, after: null };
    void pulumi.log.debug(driftMessage({ host: host.name, layer: "host", ...item }));
    const fails = new pulumi.ResourceHook(`${host.name} is down`, () => {
      throw new Error(down.why);
    });
    const opts = { parent, dependsOn, hooks: { beforeCreate: [fails] } };
    new pulumi.ComponentResource("pushgate:index:Down", `${host.name} is down`, {}, opts);
  }
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
  { host, report, down, component }: DeclaredHost,
  { settings, programs, clientCa }: Inputs,
  { certId, resources }: { readonly certId: pulumi.Input<string>; readonly resources: pulumi.Resource[] },
  presents: (certId: string) => Promise<unknown>,
): pulumi.Resource | undefined {
  const name = commandOf(host, "client-ca");
  if (down?.state.has(name)) return kept(name, { parent: component, dependsOn: resources }, false);
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
