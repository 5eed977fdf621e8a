/** A name is the file's on the host, the entry's in `Credentials` and, from the dot on, the unit's. No hook has a dot. */

/** In LoadCredentialEncrypted= of a unit. systemd-creds binds a credential to this name. */
export const loadedAs = { deployKey: "deploy-key", status: "status", notify: "notify", purge: "purge" } as const;

/**
 * Deploy key, token for results, the secrets of the recipients of `site.notify`, and token for `site.purge`, as
 * `secrets.<hook>` names them.
 */
export type CredentialKind = keyof typeof loadedAs;
export const credentialKinds = Object.keys(loadedAs) as CredentialKind[];

/** Without a kind: the secrets that the git host signs with. */
export const credentialOf = (hook: string, kind?: CredentialKind): string =>
  kind === undefined ? hook : `${hook}.${loadedAs[kind]}`;

/** Whether a name is that of a deploy key, which has several lines. */
export const isDeployKey = (name: string): boolean => name.endsWith(`.${loadedAs.deployKey}`);
