/**
 * What is wrong with the secrets: pure, all faults at once, and never with a value in them. A hook's own secrets are what
 * the git host signs with; its deploy key is what the rebuild reads the repository with.
 */
import { parse as parseYaml } from "yaml";
import { remoteOf } from "./derived.ts";
import type { Fault } from "./faults.ts";

/** Of what was written, fitting or not, so that the secrets' faults come with all the others. */
export type WrittenHook = {
  readonly name: string;
  /** It has a site, and its repository is read over ssh. */
  readonly reachedOverSsh: boolean;
};

export function writtenHooks(hooks: unknown): WrittenHook[] {
  const reachedOverSsh = ({ repository, site }: Record<string, unknown>) =>
    site !== undefined && typeof repository === "string" && remoteOf(repository).ssh;
  return Array.isArray(hooks)
    ? hooks.flatMap((hook) =>
        typeof hook?.name === "string" ? [{ name: hook.name, reachedOverSsh: reachedOverSsh(hook) }] : [],
      )
    : [];
}

/** Characters; a shorter secret can be guessed. 32 of base64 are 192 bits. */
const secretLength = 32;

/**
 * Faults of the secrets. Never quotes a value. `stackFile` is Pulumi.<stack>.yaml's text: the engine decrypts before
 * the program starts, so only the file still shows which values were plain.
 */
export function secretFaults(
  secrets: unknown,
  hooks: readonly WrittenHook[],
  encrypted: boolean,
  stackFile?: string,
): Fault[] {
  const cure = (path: string) => `pulumi config set --secret --path pushgate:${path}`;
  if (secrets === null || typeof secrets !== "object" || Array.isArray(secrets)) {
    return [{ key: "secrets", says: "must be an object: { <hook>: { current, previous?, deployKey? } }" }];
  }
  const entries = Object.entries(secrets as Record<string, unknown>);
  const faults: Fault[] = [];
  if (entries.length > 0 && !encrypted) {
    faults.push({
      key: "secrets",
      says: `is plain text: make a new secret and store it with ${cure("secrets.<hook>.current")}`,
    });
  }
  for (const path of encrypted && stackFile !== undefined ? plainLeaves(stackFile) : []) {
    faults.push({
      key: path,
      says: `is plain text beside encrypted ones: make a new secret and store it with ${cure(path)}`,
    });
  }
  for (const { name } of hooks) {
    if (!Object.hasOwn(secrets, name))
      faults.push({ key: `secrets.${name}`, says: `is missing: ${cure(`secrets.${name}.current`)}` });
  }
  for (const [name, entry] of entries) {
    const hook = hooks.find((hook) => hook.name === name);
    if (hook === undefined)
      faults.push({ key: `secrets.${name}`, says: "belongs to no hook: remove it, or check the hook's name" });
    if (entry === null || typeof entry !== "object" || Array.isArray(entry)) {
      faults.push({ key: `secrets.${name}`, says: "must be { current, previous?, deployKey? }" });
      continue;
    }
    const { current, previous, deployKey, ...rest } = entry as Record<string, unknown>;
    for (const key of Object.keys(rest))
      faults.push({
        key: `secrets.${name}.${key}`,
        says: "is not a key pushgate knows: use current, previous and deployKey",
      });
    if (current === undefined)
      faults.push({ key: `secrets.${name}.current`, says: `is missing: ${cure(`secrets.${name}.current`)}` });
    for (const [key, value] of Object.entries({ current, previous })) {
      const says = value === undefined ? undefined : secretFault(value);
      if (says !== undefined) faults.push({ key: `secrets.${name}.${key}`, says });
    }
    if (typeof current === "string" && current === previous) {
      faults.push({ key: `secrets.${name}.previous`, says: "equals current: remove it, the rotation is over" });
    }
    const says = deployKeyFault(name, deployKey, hook?.reachedOverSsh === true);
    if (says !== undefined) faults.push({ key: `secrets.${name}.deployKey`, says });
  }
  return faults;
}

/** The receiver reads one secret a line, and a git host's form field may trim: no white space, no control characters. */
function secretFault(value: unknown): string | undefined {
  if (typeof value !== "string") return "must be text";
  if (value.length < secretLength)
    return `is shorter than ${secretLength} characters: make one with openssl rand -base64 32`;
  if (value.length > 512) return "is longer than 512 characters, more than git hosts keep";
  if (!/^[\x21-\x7e]+$/.test(value))
    return "holds white space or a character outside ASCII, which git hosts store differently";
  return undefined;
}

/** Paths below `secrets` whose value stands in the stack file as plain text. */
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

function deployKeyFault(hook: string, value: unknown, needed: boolean): string | undefined {
  const cure = `pulumi config set --secret --path pushgate:secrets.${hook}.deployKey <deploy-key`;
  if (value === undefined)
    return needed
      ? `is missing, and the repository is read over ssh: ssh-keygen -t ed25519 -N "" -f deploy-key, let the git host have deploy-key.pub for reading only, then ${cure}`
      : undefined;
  if (!needed) return "is for a site whose repository is read over ssh, and this is none: remove it";
  if (typeof value !== "string") return `must be the private key's text: ${cure}`;
  const text = value.replaceAll("\r", "").trim();
  if (/^(ssh-|ecdsa-)\S+ /.test(text)) return `is the public half, which the git host gets: ${cure}`;
  const [, kind, body] = /^-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----\n([\s\S]+)\n-----END \1-----$/.exec(text) ?? [];
  if (kind === undefined || body === undefined) return `is no private key with its BEGIN and END lines: ${cure}`;
  if (isEncrypted(kind, body))
    return `has a passphrase, and nobody is there to type it: make one without, ssh-keygen -t ed25519 -N "" -f deploy-key, then ${cure}`;
  return undefined;
}

/** OpenSSH says it in the key's own bytes: its magic, then the cipher's name with its length. */
function isEncrypted(kind: string, body: string): boolean {
  if (kind === "ENCRYPTED PRIVATE KEY" || /^Proc-Type:.*ENCRYPTED/m.test(body)) return true;
  if (kind !== "OPENSSH PRIVATE KEY") return false;
  const bytes = Buffer.from(body, "base64");
  const magic = "openssh-key-v1\0";
  if (bytes.subarray(0, magic.length).toString("latin1") !== magic) return false;
  const length = bytes.readUInt32BE(magic.length);
  return bytes.subarray(magic.length + 4, magic.length + 4 + length).toString("latin1") !== "none";
}
