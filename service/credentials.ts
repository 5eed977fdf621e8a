/**
 * The credentials of a hook. Each has one name: of its encrypted file on the host, of its entry in `Credentials`, and,
 * after the dot, by which its unit loads it. No hook's name contains a dot.
 */
const kinds = { deployKey: "deploy-key", status: "status", notify: "notify" } as const;

export type CredentialKind = keyof typeof kinds;

/** `site` for the secrets that the git host signs with, newest first; `site.status` for the token for results. */
export const credentialOf = (hook: string, kind?: CredentialKind): string =>
  kind === undefined ? hook : `${hook}.${kinds[kind]}`;

/** LoadCredentialEncrypted= of a unit, without the folder: systemd-creds binds a credential to this name. */
export const loadedAs = (kind: CredentialKind): string => kinds[kind];
