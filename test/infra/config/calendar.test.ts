/** The shape of `site.schedule`, beside systemd's own reading of the same texts. */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { isCalendar } from "../../../infra/config/calendar.ts";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { stackConfig, stackFile } from "../../fixtures.ts";
import { missing } from "../host/namespace.ts";

const accepted = [
  ...["minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly", "annually"],
  ...["daily UTC", "monthly Europe/Berlin", "Mon", "10-15", "06:00", "*:0/15", "*:*:0/30", "*-*~01", "00:05:02.25"],
  ...["Mon..Fri 06:00", "Mon,Wed *-*-* 00/2:30", "*-*-01 00:00", "2027-01-01 12:00:00 UTC", "Sat 20:00 Europe/Berlin"],
  ...["*-02~03..05", "Mon *-05~07/1", "Thu,Fri 2012-*-1,5 11:12:13", "Wed..Sat,Tue 12-10-15 1:2:3", "2003-02..04-05"],
];
const rejected = [
  ...["", " ", "06", "1h", "every day", "tomorrow", "at noon", "Mon..", "Mon Tue 06:00", "06:00 UTC UTC"],
  // cron's, and what a unit file or a shell reads as its own.
  ...["* * * * *", "0 6 * * *", "@daily", "daily;", "%h", "$(id)", "`id`", "daily\nUnit=x.service", "x".repeat(101)],
];
const bySystemd = (text: string) => spawnSync("systemd-analyze", ["calendar", "--", text]).status === 0;
const tool = missing("systemd-analyze");

describe.each([
  ["accepted", true, accepted],
  ["rejected", false, rejected],
] as const)("%s", (_, fits, texts) => {
  test.each(texts)("%j", (text) => {
    expect(isCalendar(text)).toBe(fits);
  });

  test("by systemd, too", ({ skip }) => {
    skip(tool !== undefined, tool);
    expect(texts.filter((text) => bySystemd(text) !== fits)).toEqual([]);
  });
});

test("a text of 100 characters is accepted, and no longer one", () => {
  const minutes = (first: string, more: number) => `*:${first}${",1".repeat(more)}`;
  expect(minutes("00", 48)).toHaveLength(100);
  expect([isCalendar(minutes("00", 48)), isCalendar(minutes("0", 49))]).toEqual([true, false]);
});

// systemd ignores it; in a unit's line and in a shell it is a separator.
test.each(["Mon ", " Mon", "06:00 "])("%j is rejected for the space at its end or start", (text) => {
  expect(isCalendar(text)).toBe(false);
});

test("the fault quotes what was found, and says what to write", () => {
  const [hook] = stackFile["pushgate:hooks"];
  const config = stackConfig({ "pushgate:hooks": [{ ...hook, site: { ...hook!.site, schedule: "0 6 * * *" } }] });
  expect(() => parseSettings(config, () => true)).toThrow(SettingsError);
  expect(() => parseSettings(config, () => true)).toThrow(
    'pushgate:hooks[0].site.schedule is "0 6 * * *". Use a calendar expression of systemd in quotes, such as "daily" or "Mon..Fri 06:00".',
  );
});
