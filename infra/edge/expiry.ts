/** Preview and `up` warn before a certificate expires, as every delivery fails from that day on. */
import * as pulumi from "@pulumi/pulumi";

/** The warning, or undefined. Never throws: an exception in an `apply` would end the program. */
export function expiryWarning(what: string, renewal: string, expiresOn: string | undefined, now: Date) {
  if (expiresOn === undefined) return undefined;
  // Go's format ends in a zone's name, which Node rejects.
  const days = Math.floor((Date.parse(expiresOn.replace(/ [A-Z]+$/, "")) - now.getTime()) / 86_400_000);
  if (days > 90) return undefined;
  const when = Number.isNaN(days) ? `on ${expiresOn}` : days < 0 ? `${-days} days ago` : `in ${days} days`;
  return `${what} expires ${when}, and every delivery fails from then on. ${renewal}`;
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
