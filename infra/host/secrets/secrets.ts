/**
 * The hooks' secrets and deploy keys on the machine: encrypted with the host's key, handed by systemd to the receiver
 * alone, and to the rebuild of its own hook alone.
 *
 * Rules: a plain secret is never in argv, in an environment, in a file on disk or in any output; it travels on standard
 * input, and from there through the shell's own printf into systemd-creds. Nothing rendered here holds one. Preview
 * compares without asking for it: the machine answers an HMAC of what it has installed, keyed with a salt that only
 * root there can read.
 *
 * `--with-key=host`: the default may bind to a TPM, and a machine moved to other hardware could no longer decrypt.
 */
import { createHmac } from "node:crypto";
import type { HostFact, HostLayer } from "../../apply/layer.ts";
import { applyScript, type Probed } from "../../apply/manifest.ts";
import { reconcile, type Verdict } from "../../apply/reconcile.ts";
import type { SeenLayer } from "../../apply/report.ts";
import { remoteOf } from "../../config/repository.ts";
import type { Settings } from "../../config/settings.ts";
import { layerScript, textBeside } from "../kit.ts";
import { paths, units } from "../paths.ts";

/** By hook, newest first; a hook's deploy key under `key:<hook>`, which is no hook's name, as one text of several lines. */
export type HookSecrets = Readonly<Record<string, readonly string[]>>;

export const deployKeyPath = (hook: string) => `${paths.credentials}/${hook}-deploy-key` as const;
const isKey = (name: string): boolean => name.startsWith("key:");

/** What the configuration must give: a name each, as in `HookSecrets`, and the file it becomes. */
function credentials({ hooks }: Pick<Settings, "hooks">): { name: string; file: string }[] {
  return hooks.flatMap(({ name, repository, site }) => [
    { name, file: name },
    ...(site !== undefined && remoteOf(repository).ssh ? [{ name: `key:${name}`, file: `${name}-deploy-key` }] : []),
  ]);
}

/** Names of all files in the credentials' folder, sorted. */
export const credentialFiles = (settings: Pick<Settings, "hooks">): string[] =>
  credentials(settings)
    .map(({ file }) => file)
    .sort();

/** What `activate` reads on standard input. Secret: wrap it before it reaches a resource. Throws on what a line can't hold. */
export function secretLines(secrets: HookSecrets): string {
  return Object.entries(secrets)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([hook, values]) => {
      if (isKey(hook)) return `${hook} ${Buffer.from(keyText(values)).toString("base64")}\n`;
      // Settings refuse these with their cure; here they would end up as another hook's line, so it is asked again.
      if (values.length === 0 || values.length > 2 || values.some((value) => !/^[\x21-\x7e]+$/.test(value)))
        throw new Error(`the secrets of hook ${hook} are not one or two words of printable ASCII`);
      return `${[hook, ...values].join(" ")}\n`;
    })
    .join("");
}

/** As the receiver reads it: one secret a line, newest first. */
const credentialText = (values: readonly string[]): string => values.map((value) => `${value}\n`).join("");

/** As ssh reads it: it refuses a key whose last line does not end, and one with carriage returns. */
const keyText = ([key = ""]: readonly string[]): string => `${key.replaceAll("\r", "").trim()}\n`;

/** Hex. `saltText` as the machine prints it. */
export const expectedMac = (saltText: string, values: readonly string[], name = ""): string =>
  createHmac("sha256", saltText)
    .update(isKey(name) ? keyText(values) : credentialText(values))
    .digest("hex");

/** Asked in each preview. What it should say depends on the machine's salt: `auditVerdict`. */
export const secretsAudit: Omit<HostFact, "want"> = { name: "installed secrets", read: "macs" };

/** "as declared", or what of it is not; never a MAC, as this may be printed. */
export function auditVerdict(said: string, secrets: HookSecrets): string {
  const lines = said.split("\n").map((line) => line.trim());
  const saltText = /^salt ([0-9a-f]{64})$/.exec(lines[0] ?? "")?.[1];
  if (saltText === undefined) return "absent";
  const differing = Object.entries(secrets)
    .filter(([hook, values]) => !lines.includes(`${hook} ${expectedMac(saltText, values, hook)}`))
    .map(([hook]) => hook);
  return differing.length === 0 ? "as declared" : `differs: ${differing.sort().join(", ")}`;
}

/** The layer as it is asked about: with the audit, whose answer `judgeSecrets` reads. */
export const probedSecrets = (layer: HostLayer): Probed => ({ ...layer, facts: [...layer.facts, secretsAudit] });

/** `script`: what brings the layer to the machine; as secret as `secrets`. */
export function judgeSecrets(
  layer: HostLayer,
  seen: SeenLayer,
  secrets: HookSecrets,
): Verdict & { readonly script: string } {
  const asked = layer.facts.length;
  const { output, status } = seen.facts[asked] ?? { output: "", status: 1 };
  const verdict = reconcile(
    { ...layer, facts: [...layer.facts, { ...secretsAudit, want: "as declared" }] },
    { ...seen, facts: [...seen.facts.slice(0, asked), { output: auditVerdict(output, secrets), status }] },
  );
  return { ...verdict, script: applyScript(layer, verdict.stamp, paths.state, secretLines(secrets)) };
}

/** Public; `activate` wants `secretLines` on its standard input, and nothing else may carry them. */
export function secrets(settings: Settings): HostLayer {
  const wanted = credentials(settings);
  const files = wanted.map(({ file }) => file);
  return {
    name: "secrets",
    script: layerScript(import.meta.url, "secrets", {
      etc: paths.etc,
      state: paths.state,
      folder: paths.credentials,
      names: wanted.map(({ name }) => name),
      files,
      receiver: units.receiver,
      audit: textBeside(import.meta.url, "audit.cjs"),
    }),
    files: [],
    // No globs: a credential is no rendered file. The unit that runs now still loads that of a hook that is gone, so the
    // receiver layer removes it once its unit no longer does; `retire` removes all of them.
    owns: [],
    activate: "activate",
    facts: [
      {
        name: `credentials in ${paths.credentials}`,
        read: "modes",
        want: [". 700 root:root", ...files.map((file) => `${file} 600 root:root`)].join("\n"),
      },
      { name: "credentials changed since they were installed", read: "replaced", want: "none" },
      { name: "salt", read: `stat -c '%a %U:%G' "$salt" 2>/dev/null`, want: "600 root:root" },
    ],
    retire: "retire",
    timeout: 60,
  };
}
