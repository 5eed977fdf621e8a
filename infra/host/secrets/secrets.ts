/**
 * Secrets, deploy keys and tokens, encrypted with the host's key. systemd decrypts each for one unit alone.
 * - A plain secret is never in argv, in an environment, in a file on disk, in output or in anything rendered here: the
 *   shell's own printf passes it from standard input to systemd-creds.
 * - Preview compares sums of salt and secret. The salt has 256 random bits. Only root on the host can read it and the sums.
 * - `--with-key=host`: the default may bind to a TPM, and a host moved to other hardware could no longer decrypt.
 */
import { credentialKinds, credentialOf, isDeployKey, loadedAs } from "../../../service/credentials.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import type { HostFact, HostLayer } from "../../apply/layer.ts";
import { declaredScript, sha256 } from "../../apply/manifest.ts";
import { reconcile } from "../../apply/reconcile.ts";
import type { SeenLayer } from "../../apply/report.ts";
import { hasNotifySecret, sitesOf } from "../../config/derived.ts";
import type { Credentials, Settings } from "../../config/settings.ts";
import { layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";

export const loadCredential = (hook: string, kind?: (typeof credentialKinds)[number]): string =>
  `LoadCredentialEncrypted=${kind === undefined ? hook : loadedAs[kind]}:${paths.credentials}/${credentialOf(hook, kind)}`;

/** Sorted names of all files in the folder of the credentials: the entries of `Credentials` that there must be. */
export const credentialFiles = (settings: Pick<Settings, "hooks">): string[] =>
  [
    ...settings.hooks.map(({ name }) => name),
    ...sitesOf(settings).flatMap(({ name, repository, site, setsStatus }) => {
      const has = {
        deployKey: repositoryOf(repository).ssh,
        status: setsStatus === true,
        notify: hasNotifySecret(site),
        purge: site.purge,
      };
      return credentialKinds.filter((kind) => has[kind]).map((kind) => credentialOf(name, kind));
    }),
  ].sort();

/** A credential as its unit reads it. ssh rejects a key without a final line end, and one with carriage returns. */
const textOf = (name: string, values: readonly string[]): string =>
  isDeployKey(name)
    ? `${(values[0] ?? "").replaceAll("\r", "").trim()}\n`
    : values.map((value) => `${value}\n`).join("");

/** What `activate` reads on standard input. Secret. Throws on what a line cannot hold. */
export function secretLines(secrets: Credentials): string {
  const lines = Object.entries(secrets).map(([name, values]) => {
    if (isDeployKey(name)) return `${name} ${Buffer.from(textOf(name, values)).toString("base64")}\n`;
    // infra/config reports these with a fix; here one could become the line of another hook, so check again.
    if (values.length === 0 || values.some((value) => !/^[\x21-\x7e]+$/.test(value)))
      throw new Error(`the secrets of hook ${name} are not words of printable ASCII`);
    return `${[name, ...values].join(" ")}\n`;
  });
  return lines.sort().join("");
}

export const expectedSum = (saltText: string, values: readonly string[], name: string): string =>
  sha256(saltText + textOf(name, values));

/** Read in each preview. What the host prints depends on its salt: `auditVerdict` compares. */
const auditOf = (name: string): HostFact => ({
  ...{ name: `the installed secret ${name}`, read: `sum_of ${name}`, want: "as declared" },
});

/** "as declared", or how it is not; never a sum, as preview prints it. */
export function auditVerdict(printed: string, name: string, values: readonly string[]): string {
  const [, saltText, sum] = /^salt ([0-9a-f]{64})\n\S+ ([0-9a-f]{64})$/.exec(printed) ?? [];
  if (saltText === undefined) return "absent";
  return sum === expectedSum(saltText, values, name) ? "as declared" : "differs";
}

export const probedSecrets = (layer: HostLayer, settings: Settings): HostLayer => ({
  ...layer,
  facts: [...layer.facts, ...credentialFiles(settings).map(auditOf)],
});

/** `script` is as secret as `secrets`. */
export function judgeSecrets(layer: HostLayer, seen: SeenLayer, settings: Settings, secrets: Credentials) {
  const probed = probedSecrets(layer, settings);
  const names = [...layer.facts.map(() => undefined), ...credentialFiles(settings)];
  const facts = names.map((name, i) => {
    const found = seen.facts[i];
    return found && name ? { ...found, output: auditVerdict(found.output, name, secrets[name]!) } : found;
  });
  const verdict = reconcile(probed, { ...seen, facts });
  return { ...verdict, script: declaredScript(layer, verdict.stamp, paths.state, secretLines(secrets)) };
}

export function secretsLayer(settings: Settings) {
  const { etc, credentials } = paths;
  const names = credentialFiles(settings);
  const modes = [". 700 root:root", ...names.map((name) => `${name} 600 root:root`)];
  return layerOf(import.meta.url, "secrets", {
    values: { etc, credentials, names, receiver: units.receiver, agent: units.agent("%i") },
    // No globs: a credential is no rendered file. The unit that runs now still loads that of a hook that is gone, so the
    // receiver layer removes it once its unit no longer does; `retire` removes all of them.
    facts: [
      { name: `credentials in ${credentials}`, read: "credential_modes", want: modes.join("\n") },
      { name: "credentials changed since they were installed", read: "replaced", want: "none" },
      { name: "sums of credentials", read: `stat -c '%a %U:%G' "$written" 2>/dev/null`, want: "600 root:root" },
    ],
  });
}
