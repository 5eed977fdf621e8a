/** Faults of the secrets; none of them quotes one. */
import * as v from "valibot";
import { parse as parseYaml } from "yaml";
import { apis } from "../../service/git-hosts/api/index.ts";
import type { GitHost } from "../../service/git-hosts/index.ts";
import { repositoryOf } from "../../service/git-hosts/repository.ts";
import { isKey, isMeantAsKey } from "../../service/git-hosts/standard-signature.ts";
import { knownGitHost, otherGitHost } from "./derived.ts";
import { checkShape, type Fault, faultsOf } from "./faults.ts";
import { hookName, hookSecrets, repositoryShape } from "./schema.ts";

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** A hook as written, so that faults of the secrets come with the faults of the hooks. */
function writtenHook(hook: unknown) {
  const { name, gitHost, repository, site }: Record<string, unknown> = Object(hook);
  const isFit = v.is(repositoryShape, repository) && !otherGitHost({ repository, gitHost });
  return {
    name: v.is(hookName, name) ? name : undefined,
    gitHost: knownGitHost(gitHost),
    // undefined where the repository has a fault of its own.
    needsDeployKey: site === undefined ? false : isFit ? repositoryOf(repository).ssh : undefined,
    hasSite: site !== undefined,
    purges: (Object(site) as Record<string, unknown>).purge === true,
    recipients: list(Object(site).notify).map((one): Record<string, unknown> => Object(one)),
  };
}

const store = (path: string) => `npx pulumi config set --secret --path pushgate:${path}`;
const newSecret = (path: string, keys?: GitHost["keys"]) =>
  `${store(path)} "${keys === undefined ? "" : "whsec_"}$(openssl rand -base64 32)"`;
const newKey = 'ssh-keygen -t ed25519 -N "" -f deploy-key';

/** `encrypted`: whether the engine decrypted something. Only the stack file still shows which values are plain text. */
export function secretFaults(
  secrets: unknown,
  written: unknown,
  encrypted: boolean,
  stackFile?: string,
  apiToken?: string,
): Fault[] {
  const ofEachHook = `For each hook, run: ${newSecret("secrets.<hook>.current")}`;
  if (secrets === null || typeof secrets !== "object" || Array.isArray(secrets))
    return [{ key: "secrets", says: `is ${Array.isArray(secrets) ? "a list" : "no object"}. ${ofEachHook}` }];
  const hooks = list(written).map(writtenHook);
  // Of a name with a fault it is unknown which secrets are its own.
  const named = hooks.length > 0 && hooks.every(({ name }) => name !== undefined);
  const entries = Object.entries(secrets as Record<string, unknown>);
  return [
    ...faultsOf("secrets", { [`is plain text. ${ofEachHook}`]: entries.length > 0 && !encrypted }),
    ...(encrypted && stackFile !== undefined ? plainLeaves(stackFile) : []).map((key) => ({
      key,
      says: `is plain text beside encrypted secrets. Make a new secret, and run: ${store(key)}`,
    })),
    ...hooks.flatMap(({ name, gitHost }) => {
      const fault = `is missing. Run: ${newSecret(`secrets.${name}.current`, gitHost?.keys)}`;
      return faultsOf(`secrets.${name}`, { [fault]: name !== undefined && !Object.hasOwn(secrets, name) });
    }),
    ...entries.flatMap(([name, entry]) => {
      const key = `secrets.${name}`;
      const hook = hooks.find((hook) => hook.name === name);
      const { current, previous, deployKey, status, notify, purge }: Record<string, unknown> = Object(entry);
      return [
        ...faultsOf(key, {
          [`belongs to no hook. Correct the hook's name, or run: npx pulumi config rm --path pushgate:${key}`]:
            named && hook === undefined,
        }),
        ...checkShape(hookSecrets, entry, key, true).faults.map((fault) =>
          fault.key === `${key}.current`
            ? { ...fault, says: `${fault.says} Run: ${newSecret(fault.key, hook?.gitHost?.keys)}` }
            : fault,
        ),
        ...keyFaults(`${key}.current`, current, hook?.gitHost?.keys),
        ...keyFaults(`${key}.previous`, previous, hook?.gitHost?.keys),
        ...faultsOf(`${key}.previous`, {
          "equals current. Remove it: the rotation is over.": typeof current === "string" && current === previous,
        }),
        ...deployKeyFaults(`${key}.deployKey`, deployKey, hook?.needsDeployKey),
        ...(hook === undefined ? [] : reportFaults(key, hook, { current, status, notify })),
        ...faultsOf(`${key}.purge`, {
          [`is missing, and site.purge is true. Make a token for the zone with Zone > Cache Purge > Purge alone, and run: ${store(`${key}.purge`)}`]:
            purge === undefined && hook?.purges === true,
          "is set, but the hook has no site.purge. Remove it, or set site.purge: true.":
            purge !== undefined && hook?.purges === false,
          [`is cloudflare:apiToken, with which a host could change the zone. Make a token with Zone > Cache Purge > Purge alone, and run: ${store(`${key}.purge`)}`]:
            purge !== undefined && purge === apiToken,
        }),
      ];
    }),
  ];
}

type Reported = Readonly<Record<"current" | "status" | "notify", unknown>>;

function reportFaults(
  key: string,
  hook: ReturnType<typeof writtenHook>,
  { current, status, notify }: Reported,
): Fault[] {
  const { gitHost, hasSite, recipients } = hook;
  const given = v.is(v.record(v.string(), v.unknown()), notify) ? notify : {};
  const unknown = Object.keys(given).filter((name) => recipients.every((one) => one.name !== name));
  return [
    ...faultsOf(`${key}.status`, {
      "is set, but the hook has no site, so that no build has a result. Remove it.": status !== undefined && !hasSite,
      [`is set, but ${gitHost?.name} has no API for the result of a build. Remove it.`]:
        status !== undefined && hasSite && gitHost !== undefined && apis[gitHost.name]?.status === undefined,
    }),
    ...unknown.map((name) => ({
      key: `${key}.notify.${name}`,
      says: "is set, but site.notify has no recipient of this name. Remove it, or add the recipient.",
    })),
    ...recipients.flatMap(({ name, format }) => {
      const [own, secret] = [`${key}.notify.${name}`, given[String(name)]];
      const remove = `is set, and a recipient of format email has no secret. Run: npx pulumi config rm --path pushgate:${own}`;
      if (format === "email") return faultsOf(own, { [remove]: secret !== undefined });
      const run = format === "standard" ? newSecret(own, "all") : store(own);
      return [
        ...faultsOf(own, {
          [`is missing, and site.notify has this recipient. Run: ${run}`]: v.is(hookName, name) && secret === undefined,
          [`equals current, so that what gets notifications can sign deliveries. Run: ${run}`]:
            typeof secret === "string" && current === secret,
        }),
        ...(format === "standard" ? keyFaults(own, secret, "all") : []),
      ];
    }),
  ];
}

/** A misspelled key would be taken for a token that each delivery carries. */
function keyFaults(key: string, value: unknown, keys: GitHost["keys"]): Fault[] {
  if (typeof value !== "string") return [];
  const isWanted = keys === "all" || (keys === "some" && isMeantAsKey(value));
  return faultsOf(key, {
    [`is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: ${newSecret(key, keys)}`]:
      isWanted && !isKey(value),
  });
}

/** Paths in the stack file whose secret is plain text there. What is no text has a fault of its shape. */
function plainLeaves(stackFile: string): string[] {
  const walk = (node: unknown, path: string): string[] => {
    if (node === null) return [];
    if (typeof node !== "object") return [path];
    if (Array.isArray(node) || (/^secrets(\.[^.]+){2}/.test(path) && !/^secrets\.[^.]+\.notify$/.test(path))) return [];
    if (Object.keys(node).length === 1 && "secure" in node && typeof node.secure === "string") return [];
    return Object.entries(node).flatMap(([key, child]) => walk(child, `${path}.${key}`));
  };
  const config = (parseYaml(stackFile) as { config?: Record<string, unknown> } | null)?.config ?? {};
  return Object.entries(config).flatMap(([key, node]) => {
    const [, path] = /^pushgate:(secrets(?:\..*)?)$/.exec(key) ?? [];
    return path === undefined ? [] : walk(node, path);
  });
}

/** In base64, OpenSSH's form begins with its magic, `openssh-key-v1`, and the name of its cipher. */
const hasPassphrase = /BEGIN ENCRYPTED|Proc-Type:.*ENCRYPTED|^b3BlbnNzaC1rZXktdjEA(?!AAAABG5vbm)/m;

function deployKeyFaults(key: string, value: unknown, isNeeded: boolean | undefined): Fault[] {
  const run = `run: ${store(key)} <deploy-key`;
  const text = typeof value === "string" ? value.replaceAll("\r", "").trim() : "";
  const isPrivate = /^-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----\n[\s\S]+\n-----END \1-----$/.test(text);
  const isPublic = /^(ssh-|ecdsa-)\S+ /.test(text);
  if (isNeeded === undefined) return [];
  if (!isNeeded)
    return faultsOf(key, {
      "is set, but the hook has no site whose repository is read over SSH. Remove it.": value !== undefined,
    });
  return faultsOf(key, {
    [`is missing, and the repository is read over SSH. Make a key with ${newKey}, give the git host deploy-key.pub for reading only, and ${run}`]:
      value === undefined,
    [`is the public half, which belongs at the git host. Instead, ${run}`]: isPublic,
    [`is not a private key with its BEGIN and END lines. To store one, ${run}`]:
      typeof value === "string" && !isPublic && !isPrivate,
    [`has a passphrase, which a build cannot enter. Make a key without, ${newKey}, and ${run}`]:
      isPrivate && hasPassphrase.test(text),
  });
}
