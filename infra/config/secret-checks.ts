/** Faults of the secrets: those that git hosts sign with, and the builder's deploy keys. No fault quotes a value. */
import { parse as parseYaml } from "yaml";
import { remoteOf } from "./derived.ts";
import { checkShape, type Fault, faultsOf } from "./faults.ts";
import { hookSecrets } from "./schema.ts";

/** The hooks as written, so that faults of the secrets come with the faults of the hooks. */
const writtenHooks = (hooks: unknown) =>
  (Array.isArray(hooks) ? hooks : []).flatMap((hook: Record<string, unknown> | null) => {
    const { name, repository, site } = hook ?? {};
    const needsDeployKey = site !== undefined && typeof repository === "string" && remoteOf(repository).ssh;
    return typeof name === "string" ? [{ name, needsDeployKey }] : [];
  });

const store = (path: string) => `npx pulumi config set --secret --path pushgate:${path}`;
const newSecret = (path: string) => `${store(path)} "$(openssl rand -base64 32)"`;
const newKey = 'ssh-keygen -t ed25519 -N "" -f deploy-key';

/**
 * `encrypted`: whether the engine decrypted something in `secrets`. It decrypts before the program starts, so only
 * the text of Pulumi.<stack>.yaml still shows which values were plain text.
 */
export function secretFaults(secrets: unknown, written: unknown, encrypted: boolean, stackFile?: string): Fault[] {
  if (secrets === null || typeof secrets !== "object" || Array.isArray(secrets))
    return [{ key: "secrets", says: "is not an object. Use { <hook>: { current, previous?, deployKey? } }." }];
  const hooks = writtenHooks(written);
  const entries = Object.entries(secrets as Record<string, unknown>);
  return [
    ...faultsOf("secrets", {
      [`is plain text. For each hook, run: ${newSecret("secrets.<hook>.current")}`]: entries.length > 0 && !encrypted,
    }),
    ...(encrypted && stackFile !== undefined ? plainLeaves(stackFile) : []).map((key) => ({
      key,
      says: `is plain text beside encrypted secrets. Make a new secret, and run: ${store(key)}`,
    })),
    ...hooks.flatMap(({ name }) => {
      const fault = `is missing. Run: ${newSecret(`secrets.${name}.current`)}`;
      return faultsOf(`secrets.${name}`, { [fault]: !Object.hasOwn(secrets, name) });
    }),
    ...entries.flatMap(([name, entry]) => {
      const key = `secrets.${name}`;
      const hook = hooks.find((hook) => hook.name === name);
      const { current, previous, deployKey }: Record<string, unknown> = Object(entry);
      return [
        ...faultsOf(key, { "belongs to no hook. Remove it, or correct the hook's name.": hook === undefined }),
        ...checkShape(hookSecrets, entry, key, true).faults.map((fault) =>
          fault.key === `${key}.current` ? { ...fault, says: `${fault.says} Run: ${newSecret(fault.key)}` } : fault,
        ),
        ...faultsOf(`${key}.previous`, {
          "equals current. Remove it: the rotation is over.": typeof current === "string" && current === previous,
        }),
        ...deployKeyFaults(`${key}.deployKey`, deployKey, hook?.needsDeployKey === true),
      ];
    }),
  ];
}

/** Paths in the stack file whose secret is plain text there. */
function plainLeaves(stackFile: string): string[] {
  const walk = (node: unknown, path: string): string[] => {
    if (node === null || node === undefined) return [];
    if (typeof node !== "object") return [path];
    if (Object.keys(node).length === 1 && "secure" in node) return [];
    return Object.entries(node).flatMap(([key, child]) => walk(child, `${path}.${key}`));
  };
  const config = (parseYaml(stackFile) as { config?: Record<string, unknown> } | null)?.config ?? {};
  return Object.entries(config).flatMap(([key, node]) => {
    const [, path] = /^pushgate:(secrets(?:\..*)?)$/.exec(key) ?? [];
    return path === undefined ? [] : walk(node, path);
  });
}

function deployKeyFaults(key: string, value: unknown, isNeeded: boolean): Fault[] {
  const run = `run: ${store(key)} <deploy-key`;
  const text = typeof value === "string" ? value.replaceAll("\r", "").trim() : undefined;
  const [, kind, body = ""] =
    /^-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----\n([\s\S]+)\n-----END \1-----$/.exec(text ?? "") ?? [];
  const isPublic = text !== undefined && /^(ssh-|ecdsa-)\S+ /.test(text);
  if (!isNeeded)
    return faultsOf(key, {
      "is set, but the hook has no site whose repository is read over SSH. Remove it.": value !== undefined,
    });
  return faultsOf(key, {
    [`is missing, and the repository is read over SSH. Make a key with ${newKey}, give the git host deploy-key.pub for reading only, and ${run}`]:
      value === undefined,
    [`is the public half, which belongs at the git host. Instead, ${run}`]: isPublic,
    [`is not a private key with its BEGIN and END lines. To store one, ${run}`]:
      text !== undefined && !isPublic && kind === undefined,
    [`has a passphrase, which a build cannot enter. Make a key without, ${newKey}, and ${run}`]:
      kind !== undefined && isEncrypted(kind, body),
  });
}

/** An OpenSSH key starts with its magic, then the length and the name of its cipher. */
function isEncrypted(kind: string, body: string): boolean {
  if (kind === "ENCRYPTED PRIVATE KEY" || /^Proc-Type:.*ENCRYPTED/m.test(body)) return true;
  if (kind !== "OPENSSH PRIVATE KEY") return false;
  const bytes = Buffer.from(body, "base64");
  const magic = "openssh-key-v1\0";
  if (bytes.subarray(0, magic.length).toString("latin1") !== magic) return false;
  const length = bytes.readUInt32BE(magic.length);
  return bytes.subarray(magic.length + 4, magic.length + 4 + length).toString("latin1") !== "none";
}
