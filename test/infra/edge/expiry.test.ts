/** The warning before a certificate expires; client-certificate.test.ts and zone/live-zone.test.ts see who gives it. */
import { expect, test } from "vitest";
import { expiryWarning } from "../../../infra/edge/expiry.ts";

const now = new Date("2026-10-30T12:00:00Z");

test.each([
  ["2026-12-31 10:11:00 +0000 UTC", "in 61 days"],
  ["2026-12-31T10:11:00Z", "in 61 days"],
  ["2026-10-31 13:00:00 +0100 CET", "in 1 days"],
  ["2026-10-31T11:59:59.5Z", "in 0 days"],
  ["2026-10-30T11:59:59Z", "1 days ago"],
])("preview counts the days to %s, in each format of Cloudflare's API: %s", (expiresOn, when) => {
  expect(expiryWarning("it", "Renew it.", expiresOn, now)).toContain(`it expires ${when},`);
});

test("preview warns from 90 days on, also about a date of another format, and never before the date is known", () => {
  const warning = (expiresOn?: string) => expiryWarning("it", "Renew it.", expiresOn, now);
  expect(warning("2027-01-29T12:00:00Z")).toBeUndefined();
  expect(warning("2027-01-28T12:00:00Z")).toMatch(
    /^it expires in 90 days, and every delivery fails from then on\. Renew it\.$/,
  );
  expect(warning("soon")).toContain("expires on soon");
  expect(warning()).toBeUndefined();
});
