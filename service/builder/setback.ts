/**
 * Why a run ends without a new site, in words for the person who has to do something: what, the likely cause, the cure.
 * `failed`: something broke that may heal by itself. `refused`: what was built or asked for must not be published.
 */
export class Setback extends Error {
  readonly result: "failed" | "refused";
  constructor(result: "failed" | "refused", reason: string) {
    super(reason);
    this.result = result;
  }
}

export const failed = (reason: string): Setback => new Setback("failed", reason);
export const refused = (reason: string): Setback => new Setback("refused", reason);

export const diskFull =
  "the disk is full: free some space on the file system of /var/lib/pushgate-sites, or lower what the site takes there";

const byCode: Readonly<Record<string, string>> = {
  EDQUOT: "the disk quota is used up: raise it, or free some space",
  EMFILE: "too many files are open: raise the unit's LimitNOFILE=",
  ENOSPC: diskFull,
  EROFS: "the file system is read-only: see dmesg for why the kernel made it so, then mount it read-write",
};

/** Anything thrown, as a setback. */
export function setbackOf(error: unknown): Setback {
  if (error instanceof Setback) return error;
  const { code, message, path } = error as NodeJS.ErrnoException;
  const known = code !== undefined ? byCode[code] : undefined;
  if (known) return failed(known);
  if ((code === "EACCES" || code === "EPERM") && path)
    return failed(`${path} can't be used (${code}): its owner or mode was changed; \`pulumi up\` sets both`);
  return failed(`unexpected: ${printable(message ?? String(error), 300)}`);
}

/** Controls, and what turns or hides text on a terminal: names and outputs come from the repository. */
export const printable = (text: string, longest: number): string => {
  const clean = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?");
  return clean.length > longest ? `${clean.slice(0, longest)}…` : clean;
};

/** "a, b and 3 more", each name cut short. */
export function listed(names: readonly string[], most = 5): string {
  const shown = names.slice(0, most).map((name) => printable(name, 100));
  return names.length > most ? `${shown.join(", ")} and ${names.length - most} more` : shown.join(", ");
}
