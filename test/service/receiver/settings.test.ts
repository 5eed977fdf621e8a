/** The receiver's settings, and each fault for which it does not start, reported at once and without a secret. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readReceiver, SettingsFault } from "../../../service/settings.ts";
import { secrets } from "../../fixtures.ts";
import { folder, hooks, limits } from "./harness.ts";

let place: string;
beforeEach(() => {
  place = folder();
  mkdirSync(join(place, "credentials"));
  secret("site", `${secrets.site.current}\n${secrets.site.previous}\n`);
  secret("docs", secrets.docs.current);
});
afterEach(() => rmSync(place, { recursive: true }));

const listen = { host: "127.0.0.1", port: 0 };
const good = { spool: "/var/spool/pushgate", hooks, limits, listen };
const secret = (hook: string, text: string) => writeFileSync(join(place, "credentials", hook), text);

function read(settings: unknown = good, change: Record<string, string | undefined> = {}, pid = 7) {
  const file = join(place, "receiver.json");
  writeFileSync(file, typeof settings === "string" ? settings : JSON.stringify(settings));
  const env = { PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: join(place, "credentials"), ...change };
  return readReceiver(env, pid);
}

function faults(...args: Parameters<typeof read>): string[] {
  try {
    read(...args);
  } catch (error) {
    if (error instanceof SettingsFault) return error.faults.map((fault) => fault.replaceAll(place, ""));
    throw error;
  }
  return [];
}

test("readReceiver returns settings, secrets with the newest first, and no socket outside systemd", () => {
  expect(read()).toEqual({
    settings: good,
    secrets: new Map([
      ["site", [secrets.site.current, secrets.site.previous]],
      ["docs", [secrets.docs.current]],
    ]),
    sockets: [],
  });
});

test("readReceiver accepts an unknown key, which a newer pushgate may write", () => {
  expect(read({ ...good, later: true }).settings).toEqual(good);
});

describe("sockets", () => {
  const { listen: _, ...without } = good;
  test("are the descriptors from 3 up", () => {
    expect(read(without, { LISTEN_PID: "7", LISTEN_FDS: "3" }).sockets).toEqual([3, 4, 5]);
  });
  test("of another process are not used", () => {
    expect(read(good, { LISTEN_PID: "8", LISTEN_FDS: "2" }).sockets).toEqual([]);
    expect(faults(without, { LISTEN_PID: "8", LISTEN_FDS: "2" })).toEqual([
      expect.stringContaining("no socket was handed over"),
    ]);
  });
  test.each(["0", "", "x", "-1", undefined])("are none where LISTEN_FDS=%s", (count) => {
    expect(read(good, { LISTEN_PID: "7", LISTEN_FDS: count }).sockets).toEqual([]);
    expect(faults(without, { LISTEN_PID: "7", LISTEN_FDS: count })).toHaveLength(1);
  });
});

describe("the receiver does not start", () => {
  test("with an empty environment, and reports both faults", () => {
    expect(faults(good, { PUSHGATE_SETTINGS: undefined, CREDENTIALS_DIRECTORY: undefined })).toEqual([
      expect.stringMatching(/^PUSHGATE_SETTINGS is not set.*Environment=/),
      expect.stringMatching(/^CREDENTIALS_DIRECTORY is not set.*LoadCredentialEncrypted=/),
    ]);
  });

  test("without a hook's secret, and names the unit's line that provides it", () => {
    rmSync(join(place, "credentials", "docs"));
    expect(faults()).toEqual([
      "/credentials/docs is not readable (ENOENT): the unit's LoadCredentialEncrypted=docs provides it",
    ]);
  });

  test.each([
    ["an empty one", "", 1],
    ["a line end alone", "\n", 1],
    ["a short one", "0123456789012345678901234567890", 1],
    ["a short one after a good one", `${secrets.site.current}\nshort`, 1],
    ["an empty line between", `${secrets.site.current}\n\n${secrets.site.previous}`, 1],
    ["spaces as long as a secret", " ".repeat(40), 2],
    ["a carriage return, which would be part of the key", `${secrets.site.current}\r\n`, 1],
    ["a space after it", `${secrets.site.current} \n`, 1],
  ])("with an invalid secret: %s", (_, text, count) => {
    secret("site", text);
    const reported = faults();
    expect(reported).toHaveLength(count);
    for (const each of reported) {
      expect(each).toMatch(/^\/credentials\/site, line [12]: /);
      expect(each).not.toContain("0123456789");
    }
  });

  test("with settings that are not readable or not JSON", () => {
    expect(faults("{")).toEqual([expect.stringMatching(/^\/receiver.json is not JSON/)]);
    expect(faults(good, { PUSHGATE_SETTINGS: "/nowhere/receiver.json" })).toEqual([
      expect.stringMatching(/^\/nowhere\/receiver.json is not readable \(ENOENT\)/),
    ]);
  });

  test("with nine faults, and reports nine", () => {
    const reported = faults({
      spool: "relative",
      hooks: [
        { name: "Site", gitHost: "github", branch: "main" },
        { name: "../x", gitHost: "gitlab", branch: "" },
      ],
      limits: { bodyBytes: 0, refusalsPerMinute: 1.5 },
      listen: { host: "127.0.0.1", port: 65_536 },
    });
    expect(reported.map((each) => each.split(": ")[1]).sort()).toEqual([
      "hooks.0.name",
      "hooks.1.branch",
      "hooks.1.gitHost",
      "hooks.1.name",
      "limits.bodyBytes",
      "limits.concurrentPerSource",
      "limits.refusalsPerMinute",
      "listen.port",
      "spool",
    ]);
    expect(reported.join()).toContain("write github, gitea or forgejo");
  });

  test.each([
    ["no hook", { ...good, hooks: [] }],
    ["a hook twice", { ...good, hooks: [hooks[0], hooks[0]] }],
    ["a list", []],
    ["null", "null"],
  ])("with %s", (_, settings) => expect(faults(settings)).not.toEqual([]));
});
