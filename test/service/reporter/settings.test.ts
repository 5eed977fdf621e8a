/** What the reporter starts from, and each fault for which it does not start. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readReporter } from "../../../service/reporter/settings.ts";
import { folder as home, onFolder } from "../own-folder.ts";

onFolder();

const status = { gitHost: "github", repository: "https://github.com/example/site.git", context: "pushgate" };
const to = (url: string, name = "team") => ({ name, url, format: "standard" });
const notify = [to("https://example.org/")];

/** The credentials; `{}`: those of the settings are missing. */
function read(settings: object, credentials: Readonly<Record<string, string>> = {}) {
  const [file, folder] = [join(home, "reporter.json"), mkdtempSync(join(home, "credentials-"))];
  writeFileSync(file, JSON.stringify({ hook: "site", folder: "/outbox", notify: [], ...settings }));
  for (const [name, text] of Object.entries(credentials)) writeFileSync(join(folder, name), `${text}\n`);
  return readReporter({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: folder }).secrets;
}

test("the reporter reads its tokens, and each recipient's secret by its name, without the line's end", () => {
  const both = { notify: "phone:a:b\nteam:the-key", status: "the-token" };
  const secrets = { phone: "a:b", team: "the-key" };
  const purge = "https://api.cloudflare.com/client/v4/zones/0/purge_cache";
  expect(read({ purge }, { purge: "another-token" })).toEqual({ purge: "another-token", notify: {} });
  expect(read({ notify, status }, both)).toEqual({ status: "the-token", notify: secrets });
  expect(read({ notify }, both)).toEqual({ notify: secrets });
  expect(read({ status }, both)).toEqual({ status: "the-token", notify: {} });
  const two = [...notify, to("https://example.org/", "ops"), to("https://example.org/", "web")];
  expect(() => read({ notify: two }, both)).toThrow(/no secret of ops\n.*the credential notify has no secret of web$/);
});

test("the reporter reports all faults of its settings at once", () => {
  const urls = ["http://example.org/", "see https://example.org/", "https://example.org/ and more"];
  expect(() => read({ folder: "here", notify: urls.map((url) => to(url)), status: {} })).toThrow(
    /folder: .*\n.*status.gitHost: .*\n(.*\n)*.*notify.0.url: .*\n.*notify.1.url: .*\n.*notify.2.url: .*\. Run npx pulumi up, /,
  );
});

test("a credential is there, and words of ASCII, as they become parts of headers", () => {
  expect(() => read({ notify })).toThrow(
    /notify is not readable \(ENOENT\): the unit's LoadCredentialEncrypted=notify provides it$/m,
  );
  for (const words of ["two words", "keyé", ""])
    expect(() => read({ notify }, { notify: words })).toThrow(
      /the credential notify is not words of ASCII, one a line/,
    );
});
