import { printable } from "../../printable.ts";

/** Why a run ends without a new site. `failed`: the next try may work. `rejected`: the build must not be published. */
export class Setback extends Error {
  readonly result: "failed" | "rejected";
  constructor(result: "failed" | "rejected", reason: string) {
    super(reason);
    this.result = result;
  }
}

export const failed = (reason: string): Setback => new Setback("failed", reason);
export const rejected = (reason: string): Setback => new Setback("rejected", reason);

export const diskFull =
  "the disk is full. Free space on the file system of /var/lib/pushgate-sites, or make the site smaller.";

const byCode: Readonly<Record<string, string>> = {
  EDQUOT: "the disk quota is used up. Raise it, or free space.",
  EMFILE: "too many files are open. Raise LimitNOFILE= of the unit.",
  ENOSPC: diskFull,
  EROFS: "the file system is read-only. Look in dmesg for the kernel's reason, then mount it read-write.",
};

export const mebibytes = (bytes: number): string => (bytes / (1 << 20)).toFixed(1);

export function setbackOf(error: unknown): Setback {
  if (error instanceof Setback) return error;
  const { code, message, path } = error as NodeJS.ErrnoException;
  const known = code !== undefined ? byCode[code] : undefined;
  if (known) return failed(known);
  if ((code === "EACCES" || code === "EPERM") && path)
    return failed(`${path} cannot be used (${code}): its owner or mode was changed. Run \`npx pulumi up\`.`);
  return failed(`unexpected: ${printable(message ?? String(error), 300)}`);
}

/** "a, b and 3 more", each name cut short. */
export function listed(names: readonly string[], most = 5): string {
  const shown = names.slice(0, most).map((name) => printable(name, 100));
  return names.length > most ? `${shown.join(", ")} and ${names.length - most} more` : shown.join(", ");
}
