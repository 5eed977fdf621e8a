/** What the reporter starts from, and each fault for which it does not start. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readReporter } from "../../../service/reporter/settings.ts";
import { folder as home, onFolder } from "../own-folder.ts";

onFolder();

const status = { gitHost: "github", repository: "https://github.com/example/site.git", context: "pushgate" };
const to = (url: string) => ({ url, format: "standard" });
const notify = to("https://example.org/");

/** The credentials; `{}`: those of the settings are missing. */
function read(settings: object, credentials: Readonly<Record<string, string>> = {}) {
  const [file, folder] = [join(home, "reporter.json"), mkdtempSync(join(home, "credentials-"))];
  writeFileSync(file, JSON.stringify({ hook: "site", folder: "/outbox", ...settings }));
  for (const [name, text] of Object.entries(credentials)) writeFileSync(join(folder, name), `${text}\n`);
  return readReporter({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: folder }).secrets;
}

test("the reporter reads a credential for each of its posts, without the line's end", () => {
  const both = { notify: "the-key", status: "the-token" };
  const purge = "https://api.cloudflare.com/client/v4/zones/0/purge_cache";
  expect(read({ purge }, { purge: "another-token" })).toEqual({ purge: "another-token" });
  expect(read({ notify, status }, both)).toEqual(both);
  expect(read({ notify }, both)).toEqual({ notify: "the-key" });
  expect(read({ status }, both)).toEqual({ status: "the-token" });
});

test("the reporter reports all faults of its settings at once", () => {
  expect(() => read({ folder: "here", notify: to("http://example.org/"), status: {} })).toThrow(
    /folder: .*\n.*status.gitHost: .*\n[\s\S]*notify.url: .*\. Run npx pulumi up, which writes it anew\./,
  );
});

test.each(["see https://example.org/", "https://example.org/ and more"])("%j is no URL", (url) => {
  expect(() => read({ notify: to(url) }, { notify: "key" })).toThrow(/notify.url: /);
});

test("a credential is there, and one word of ASCII, as it becomes part of a header", () => {
  expect(() => read({ notify })).toThrow(
    /notify is not readable \(ENOENT\): the unit's LoadCredentialEncrypted=notify provides it$/m,
  );
  for (const words of ["two words", "keyé", ""])
    expect(() => read({ notify }, { notify: words })).toThrow(/the credential notify is not one word of ASCII/);
});
