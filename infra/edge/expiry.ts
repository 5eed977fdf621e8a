/** Preview and `up` warn before a certificate of Cloudflare's side expires, as every delivery fails from that day on. */
import * as pulumi from "@pulumi/pulumi";

/** A quarter of a year. */
const warnDays = 90;

/** Whole days from `now`, negative once expired; NaN for a date of another form. Reads RFC 3339 and Go's own format. */
export function daysLeft(expiresOn: string, now: Date): number {
  const [, day, time, zone = "Z"] =
    /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?/.exec(expiresOn) ?? [];
  if (day === undefined) return Number.NaN;
  const offset = zone === "Z" ? "Z" : zone.replace(/(\d\d):?(\d\d)$/, "$1:$2");
  return Math.floor((Date.parse(`${day}T${time}${offset}`) - now.getTime()) / 86_400_000);
}

/** The warning, or undefined. Never throws: an exception in an `apply` would end the program. */
export function expiryWarning(
  what: string,
  renewal: string,
  expiresOn: string | undefined,
  now: Date,
): string | undefined {
  if (expiresOn === undefined) return undefined;
  const days = daysLeft(expiresOn, now);
  if (days > warnDays) return undefined;
  const when = Number.isNaN(days) ? `on ${expiresOn}` : days < 0 ? `${-days} days ago` : `in ${days} days`;
  return `${what} expires ${when}, and every delivery fails from then on: ${renewal}`;
}

export function warnBeforeExpiry(
  resource: pulumi.CustomResource & { readonly expiresOn: pulumi.Output<string> },
  what: string,
  renewal: string,
): void {
  resource.expiresOn.apply((expiresOn: string | undefined) => {
    const warning = expiryWarning(what, renewal, expiresOn, new Date());
    if (warning !== undefined) void pulumi.log.warn(warning, resource);
  });
}
