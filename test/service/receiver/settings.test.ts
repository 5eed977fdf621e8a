/** The receiver's settings, and each fault for which it does not start, reported at once and without a secret. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { readReceiver } from "../../../service/receiver/settings.ts";
import { SettingsFault } from "../../../service/settings.ts";
import { secrets } from "../../fixtures.ts";
import { onFolder, folder as place } from "../own-folder.ts";
import { bySecrets, hooks, limits } from "./harness.ts";

onFolder();
beforeEach(() => {
  mkdirSync(join(place, "credentials"));
  secret("site", `${secrets.site.current}\n${secrets.site.previous}\n`);
  secret("docs", secrets.docs.current);
});

const previews = { hook: "site-previews", branches: ["next"] };
const withPreviews = hooks.map((hook) => (hook.name === "site" ? { ...hook, previews } : hook));
const good = { spool: "/var/spool/pushgate", hooks: withPreviews, limits };
const sockets = { LISTEN_PID: "7", LISTEN_FDS: "3" };
const secret = (hook: string, text: string) => writeFileSync(join(place, "credentials", hook), text);

function read(settings: unknown = good, change: Record<string, string | undefined> = {}, pid = 7) {
  const file = join(place, "receiver.json");
  writeFileSync(file, typeof settings === "string" ? settings : JSON.stringify(settings));
  const env = { PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: join(place, "credentials"), ...sockets, ...change };
  return readReceiver(env, pid);
}

function faults(...args: Parameters<typeof read>): string[] {
  try {
    read(...args);
  } catch (error) {
    if (error instanceof SettingsFault) return error.message.replaceAll(place, "").split("\n  ").slice(1);
    throw error;
  }
  return [];
}

test("readReceiver returns settings, secrets with the newest first, and the descriptors from 3 up", () => {
  // A newer pushgate may write keys that this one does not know.
  expect(read({ ...good, later: true })).toEqual({
    settings: good,
    secrets: bySecrets,
    sockets: [3, 4, 5],
    metrics: [],
  });
});

describe("sockets", () => {
  test("are for deliveries, except the one that systemd calls metrics", () => {
    const names = "pushgate-receiver-github.socket:metrics:pushgate-receiver-docs.socket";
    expect(read(good, { LISTEN_FDNAMES: names })).toMatchObject({ sockets: [3, 5], metrics: [4] });
  });

  test.each<[string, Record<string, string | undefined>]>([
    ["outside systemd", { LISTEN_PID: undefined, LISTEN_FDS: undefined }],
    ["of another process", { LISTEN_PID: "8", LISTEN_FDS: "2" }],
    ["for metrics alone", { LISTEN_PID: "7", LISTEN_FDS: "1", LISTEN_FDNAMES: "metrics" }],
    ["that are no number", { LISTEN_PID: "7", LISTEN_FDS: "x" }],
  ])("%s are none for deliveries: the receiver does not start", (_, env) => {
    expect(faults(good, env)).toEqual(["no socket was handed over (LISTEN_PID, LISTEN_FDS): start the .socket unit"]);
  });
});

describe("the receiver does not start", () => {
  test("with an empty environment, and its error counts and has both faults", () => {
    const empty = { PUSHGATE_SETTINGS: undefined, CREDENTIALS_DIRECTORY: undefined };
    const both = /^2 faults, not started:\n {2}PUSHGATE_SETTINGS is .*\n {2}CREDENTIALS_DIRECTORY is not set\./;
    expect(() => read(good, empty)).toThrow(both);
    expect(() => read(good, { PUSHGATE_SETTINGS: undefined })).toThrow(/^1 fault, not started:\n {2}PUSHGATE_SETTINGS/);
  });

  test("without a hook's secret, and names the unit's line that provides it", () => {
    rmSync(join(place, "credentials", "docs"));
    expect(faults()).toEqual([
      "/credentials/docs is not readable (ENOENT): the unit's LoadCredentialEncrypted=docs provides it",
    ]);
  });

  test.each([
    ["an empty one", "", 1],
    ["one of 31 characters", "0123456789012345678901234567890", 1],
    ["an empty line between", `${secrets.site.current}\n\n${secrets.site.previous}`, 1],
    ["spaces as long as a secret", " ".repeat(40), 2],
    ["a carriage return, which would be part of the key", `${secrets.site.current}\r\n`, 1],
    ["a space after it", `${secrets.site.current} \n`, 1],
  ])("with an invalid secret: %s", (_, text, count) => {
    secret("site", text);
    secret("docs", "x".repeat(32));
    const reported = faults();
    expect(reported).toHaveLength(count);
    for (const each of reported) {
      expect(each).toMatch(
        /^\/credentials\/site, line [12] .*\. Run npx pushgate secret rotate site, then npx pulumi up\.$/,
      );
      expect(each).not.toContain("0123456789");
    }
  });

  test("with settings that are not readable, or not JSON beside a short secret", () => {
    expect(faults(good, { PUSHGATE_SETTINGS: "/nowhere/receiver.json" })).toEqual([
      "/nowhere/receiver.json is not readable (ENOENT): PUSHGATE_SETTINGS names it, `npx pulumi up` writes it",
    ]);
    secret("docs", "short");
    expect(faults("{")).toEqual([
      "/receiver.json is not JSON. Run npx pulumi up, which writes it anew.",
      expect.stringMatching(/^\/credentials\/docs, line 1 has fewer than 32 characters\./),
    ]);
  });

  test("with eight faults, and reports eight", () => {
    const reported = faults({
      spool: "relative",
      hooks: [
        { name: "Site", gitHost: "github", branch: "main" },
        { name: "../x", gitHost: "sourcehut", branch: "" },
      ],
      limits: { bodyBytes: 0, rejectionsPerMinute: 1.5 },
    });
    expect(reported.map((each) => each.split(": ")[1]).sort()).toEqual([
      ...["hooks.0.name", "hooks.1.branch", "hooks.1.gitHost", "hooks.1.name"],
      ...["limits.bodyBytes", "limits.concurrentPerSource", "limits.rejectionsPerMinute", "spool"],
    ]);
  });

  test.each([
    ["no hook", { ...good, hooks: [] }, /hooks: /],
    ["null, in which no key can be named", "null", /^\/receiver\.json: it: /],
  ])("with %s", (_, settings, fault) => expect(faults(settings)[0]).toMatch(fault));
});
