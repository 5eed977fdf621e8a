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
import { applyScript, type Probed, quote } from "../../apply/manifest.ts";
import { reconcile, type Verdict } from "../../apply/reconcile.ts";
import type { SeenLayer } from "../../apply/report.ts";
import { remoteOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { asInstalled } from "../as-installed.ts";
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

const salt = `${paths.state}/salt`;
/** Sums of the encrypted files: a credential that a hand replaced is told from one that the configuration changed. */
const written = `${paths.state}/credentials.sha256`;

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

const activate = (settings: Settings): string => {
  const wanted = credentials(settings);
  const names = wanted.map(({ name }) => name).join(" ");
  const files = wanted.map(({ file }) => file).join(" ");
  return `
say() { printf 'secrets: %s\\n' "$*" >&2; }
umask 077
folder=${paths.credentials}
# The list of folders that go when they are empty again.
make() { [ -d "$1" ] || { mkdir -m "$2" "$1" && echo "$1" >>${paths.state}/made; }; }
make ${paths.etc} 0755
make "$folder" 0700
chmod 0700 "$folder"
rm -f "$folder"/.*.new
arrived=' '
while read -r hook newest older; do
  case ' ${names} ' in *" $hook "*) ;; *) say "a secret came for a hook that is not declared"; exit 1 ;; esac
  [ -n "$newest" ] || { say "an empty secret came for $hook"; exit 1; }
  case $hook in
    # A deploy key has several lines, which travel as one. The unit that loads it calls it deploy-key.
    key:*) file=\${hook#key:}-deploy-key called=deploy-key ;;
    *) file=$hook called=$hook ;;
  esac
  case $hook in
    key:*) printf '%s\\n' "$newest" | base64 -d ;;
    *) printf '%s\\n' "$newest"; [ -z "$older" ] || printf '%s\\n' "$older" ;;
  esac | systemd-creds encrypt --with-key=host --name="$called" - "$folder/.$file.new"
  # An empty input would encrypt well, and let everybody in with the empty key.
  [ "$(systemd-creds decrypt --name="$called" "$folder/.$file.new" - | wc -c)" -gt 32 ] || {
    say "the secret of $hook did not survive its encryption; see systemd-creds(1)"
    exit 1
  }
  sync "$folder/.$file.new"
  arrived="$arrived$hook "
done
for hook in ${names}; do
  case $arrived in *" $hook "*) ;; *) say "no secret came for $hook; nothing was replaced"; exit 1 ;; esac
done
for file in ${files}; do mv -fT "$folder/.$file.new" "$folder/$file"; done
(cd "$folder" && sha256sum ${files}) >${written}.new
mv -fT ${written}.new ${written}
if [ ! -s ${salt} ]; then
  od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n' >${salt}.new
  mv -fT ${salt}.new ${salt}
fi
# It reads them once, when it starts; its sockets keep what arrives meanwhile.
if systemctl is-active --quiet ${units.receiver} && ${asInstalled("receiver")}; then
  systemctl restart ${units.receiver}
fi
`;
};

/**
 * Fed to node, which every receiver's machine has: openssl would want the key in its argv. One line "salt …", then one
 * a hook: its name and the HMAC, or "none" where nothing can be decrypted.
 */
const auditProgram = (settings: Settings): string => `
const { execFileSync } = require("child_process");
const { createHmac } = require("crypto");
const salt = require("fs").readFileSync("${salt}", "utf8");
console.log("salt " + salt);
for (const [hook, file] of ${JSON.stringify(credentials(settings).map(({ name, file }) => [name, file]))}) {
  let mac = "none";
  try {
    const called = hook === file ? file : "deploy-key";
    const path = "${paths.credentials}/" + file;
    const text = execFileSync("systemd-creds", ["decrypt", "--name=" + called, path, "-"], { stdio: ["ignore", "pipe", "ignore"] });
    mac = createHmac("sha256", salt).update(text).digest("hex");
  } catch {}
  console.log(hook + " " + mac);
}`;

/** Asked in each preview. What it should say depends on the machine's salt: `auditVerdict`. */
export const secretsAudit = (settings: Settings): Omit<HostFact, "want"> => ({
  name: "installed secrets",
  read: `if [ -s ${salt} ] && [ -x /usr/bin/node ]; then
  /usr/bin/node -e ${quote(auditProgram(settings))} 2>/dev/null
else
  echo absent
fi`,
});

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
export const probedSecrets = (settings: Settings, layer: HostLayer): Probed => ({
  ...layer,
  facts: [...layer.facts, secretsAudit(settings)],
});

/** `script`: what brings the layer to the machine; as secret as `secrets`. */
export function judgeSecrets(
  settings: Settings,
  layer: HostLayer,
  seen: SeenLayer,
  secrets: HookSecrets,
): Verdict & { readonly script: string } {
  if (!layer.present) {
    const verdict = reconcile(layer, seen);
    return { ...verdict, script: applyScript(layer, verdict.stamp) };
  }
  const asked = layer.facts.length;
  const answer = seen.facts[asked];
  const verdict = reconcile(
    { ...layer, facts: [...layer.facts, { ...secretsAudit(settings), want: "as declared" }] },
    {
      ...seen,
      facts: [
        ...seen.facts.slice(0, asked),
        { output: auditVerdict(answer?.output ?? "", secrets), status: answer?.status ?? 1 },
      ],
    },
  );
  return { ...verdict, script: applyScript(layer, verdict.stamp, paths.state, secretLines(secrets)) };
}

/** Public; `activate` wants `secretLines` on its standard input, and nothing else may carry them. */
export function secrets(settings: Settings, _host: Host): HostLayer {
  const names = credentials(settings).map(({ file }) => file);
  return {
    name: "secrets",
    present: true,
    files: [],
    // Nothing by glob: a credential is no rendered file. One whose hook is gone is still asked for by the unit that runs
    // now, so the receiver's layer takes it away once its unit no longer does; `retire` takes them all.
    owns: [],
    activate: activate(settings),
    facts: [
      {
        name: `credentials in ${paths.credentials}`,
        read: `cd ${paths.credentials} 2>/dev/null && stat -c '%n %a %U:%G' . ${names.join(" ")} 2>/dev/null`,
        want: [". 700 root:root", ...names.map((name) => `${name} 600 root:root`)].join("\n"),
      },
      {
        name: "credentials changed since they were installed",
        read: `if [ -s ${written} ]; then
  changed=$(cd ${paths.credentials} && sha256sum --check ${written} 2>/dev/null | sed -n 's/: FAILED.*//p' | paste -sd ' ' -)
  echo "\${changed:-none}"
else
  echo unknown
fi`,
        want: "none",
      },
      {
        name: "salt",
        read: `stat -c '%a %U:%G' ${salt} 2>/dev/null`,
        want: "600 root:root",
      },
    ],
    retire: `rm -rf ${paths.credentials} ${salt} ${salt}.new ${written} ${written}.new`,
    timeout: 60,
  };
}
