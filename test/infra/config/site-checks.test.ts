/** What a site asks of the rest of the configuration: one that fits, and a table of those that don't. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { secrets, stackConfig } from "../../stack-file.ts";

const folder = mkdtempSync(join(tmpdir(), "pushgate-keys-"));
afterAll(() => rmSync(folder, { recursive: true }));
const keygen = (name: string, ...args: string[]): string => {
  spawnSync("ssh-keygen", ["-q", "-f", join(folder, name), ...args]);
  return readFileSync(join(folder, name), "utf8");
};
const hasKeygen = spawnSync("ssh-keygen", ["-?"]).error === undefined;
/** Not a key of anybody's: its bytes say that no cipher is used, and no more. */
const shaped = (cipher: string) => {
  const name = Buffer.from(cipher);
  const bytes = Buffer.concat([Buffer.from("openssh-key-v1\0"), Buffer.from([0, 0, 0, name.length]), name]);
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${bytes.toString("base64")}\n-----END OPENSSH PRIVATE KEY-----\n`;
};

const line = (name: string) =>
  `${name} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT`;
const https = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
const ssh = { ...https, repository: "git@github.com:example/site.git" };
const site = { webRoot: "/var/www/site", content: "/srv/content" };
const overSsh = { ...site, knownHosts: [line("github.com")] };

function faultsOf(hooks: object[], entries: Record<string, object> = { site: secrets.site }): string[] {
  try {
    parseSettings(stackConfig({ "pushgate:hooks": hooks, "pushgate:secrets": entries }), () => true);
    return [];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.faults.map(({ key, says }) => `${key} ${says}`);
  }
}
const withSite = (change: object, hook: object = https) => [{ ...hook, site: { ...site, ...change } }];
const other = (change: object) => ({
  ...https,
  name: "docs",
  site: { webRoot: "/var/www/docs", content: "/srv/docs", ...change },
});
const both = { site: secrets.site, docs: secrets.docs };

test("what fits: over https without a key, over ssh with key and host keys, two sites beside each other", () => {
  expect(faultsOf(withSite({}))).toEqual([]);
  expect(faultsOf([{ ...ssh, site: overSsh }], { site: { ...secrets.site, deployKey: shaped("none") } })).toEqual([]);
  expect(faultsOf([...withSite({}), other({})], both)).toEqual([]);
  expect(faultsOf(withSite({ egress: ["10.1.0.0/16", "fd12::/16"], keep: ["a", "ab", "b/c"] }))).toEqual([]);
});

describe("folders", () => {
  test.each<[object, RegExp]>([
    [{ content: "/var/www/site/content" }, /^hooks\[0\]\.site\.content lies in webRoot/],
    [{ content: "/var/www/site" }, /^hooks\[0\]\.site\.content lies in webRoot/],
    [{ webRoot: "/srv/content/public" }, /^hooks\[0\]\.site\.webRoot lies in the content/],
    [{ webRoot: "/etc/www" }, /webRoot is the system's/],
    [{ webRoot: "/usr/share/nginx/html" }, /webRoot is the system's/],
    [{ content: "/var/lib/pushgate-sites/site" }, /content is the system's/],
    [{ webRoot: "/var/spool/pushgate" }, /webRoot is the system's/],
    [{ content: "/tmp/content" }, /content is the system's/],
    [{ webRoot: "/opt" }, /webRoot holds more than this site/],
    [{ webRoot: "/root/www" }, /webRoot is root's own/],
    [{ keep: ["uploads", "uploads/2024"] }, /keep\[1\] meets keep\[0\]/],
    [{ keep: ["uploads/", "uploads"] }, /keep\[1\] meets keep\[0\]/],
  ])("%j", (change, says) => {
    expect(faultsOf(withSite(change))).toEqual([expect.stringMatching(says)]);
  });

  test.each<[object, RegExp]>([
    [{ webRoot: "/var/www/site" }, /^hooks\[1\]\.site\.webRoot meets hooks\[0\]\.site\.webRoot/],
    [{ webRoot: "/var/www/site/docs" }, /^hooks\[1\]\.site\.webRoot meets hooks\[0\]\.site\.webRoot/],
    [{ webRoot: "/srv/content/docs" }, /^hooks\[1\]\.site\.webRoot meets hooks\[0\]\.site\.content/],
    [{ content: "/var/www/site/docs" }, /^hooks\[1\]\.site\.content meets hooks\[0\]\.site\.webRoot/],
  ])("of two sites: %j", (change, says) => {
    expect(faultsOf([...withSite({}), other(change)], both)).toEqual([expect.stringMatching(says)]);
  });
});

describe("host keys", () => {
  const entries = { site: { ...secrets.site, deployKey: shaped("none") } };
  const at = (repository: string, knownHosts: string[]) =>
    faultsOf([{ ...ssh, repository, site: { ...site, knownHosts } }], entries);

  test("none: how to get them, and to compare them", () => {
    expect(at(ssh.repository, [])).toEqual([
      expect.stringMatching(/knownHosts is missing: take the lines of ssh-keyscan github\.com, and compare them/),
    ]);
  });

  test("of another host, or of another port", () => {
    expect(at(ssh.repository, [line("gitlab.com")])).toEqual([expect.stringContaining("names no github.com")]);
    const port = "ssh://git@git.example.net:2222/a/b.git";
    expect(at(port, [line("git.example.net")])).toEqual([
      expect.stringMatching(
        /names no \[git\.example\.net\]:2222: take the lines of ssh-keyscan -p 2222 git\.example\.net/,
      ),
    ]);
    expect(at(port, [line("[git.example.net]:2222")])).toEqual([]);
    expect(at("ssh://git@git.example.net/a/b.git", [line("x.example.net,git.example.net")])).toEqual([]);
  });
});

describe("deploy key", () => {
  const given = (deployKey: unknown, hook: object = { ...ssh, site: overSsh }) =>
    faultsOf([hook], { site: { ...secrets.site, ...(deployKey !== undefined && { deployKey }) } as object });

  test.each<[string, unknown, RegExp]>([
    [
      "none",
      undefined,
      /deployKey is missing.*ssh-keygen -t ed25519 -N "" -f deploy-key.*pulumi config set --secret --path/,
    ],
    ["a number", 7, /must be the private key's text/],
    ["the public half", line("x").replace("x ", ""), /is the public half/],
    ["a path", "/home/me/.ssh/id_ed25519", /is no private key/],
    ["one cut off", shaped("none").slice(0, 60), /is no private key/],
    ["OpenSSH's with a passphrase", shaped("aes256-ctr"), /has a passphrase/],
    [
      "PKCS#8 with a passphrase",
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----",
      /has a passphrase/,
    ],
    [
      "PEM with a passphrase",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIB\n-----END RSA PRIVATE KEY-----",
      /has a passphrase/,
    ],
  ])("%s", (_, key, says) => {
    const faults = given(key);
    expect(faults).toEqual([expect.stringMatching(says)]);
    if (typeof key === "string") expect(faults.join()).not.toContain(key.slice(0, 60));
  });

  test("for a repository over https, or for a hook without a site", () => {
    const says =
      /^secrets\.site\.deployKey is for a site whose repository is read over ssh, and this is none: remove it$/;
    expect(given(shaped("none"), { ...https, site })).toEqual([expect.stringMatching(says)]);
    expect(given(shaped("none"), ssh)).toEqual([expect.stringMatching(says)]);
  });

  test("a hook that is called as another's key", () => {
    const hooks = [...withSite({}), { ...https, name: "site-deploy-key" }];
    expect(faultsOf(hooks, { ...both, "site-deploy-key": secrets.docs, docs: undefined } as never)).toContainEqual(
      expect.stringMatching(/^hooks\[1\]\.name is what another hook's deploy key is called/),
    );
  });

  describe("as ssh-keygen makes them", () => {
    let keys: Record<string, string>;
    beforeAll(() => {
      if (!hasKeygen) return;
      keys = {
        ed25519: keygen("ed25519", "-t", "ed25519", "-N", ""),
        rsa: keygen("rsa", "-t", "rsa", "-b", "2048", "-N", ""),
        pem: keygen("pem", "-t", "ecdsa", "-m", "PEM", "-N", ""),
        locked: keygen("locked", "-t", "ed25519", "-N", "a passphrase"),
      };
    });
    test.each([
      ["ed25519", false],
      ["rsa", false],
      ["pem", false],
      ["locked", true],
    ])("%s: has a passphrase: %s", (name, locked) => {
      if (!hasKeygen) return;
      expect(given(keys[name])).toEqual(locked ? [expect.stringContaining("has a passphrase")] : []);
      expect(given(keys[name]!.replaceAll("\n", "\r\n").trimEnd())).toHaveLength(locked ? 1 : 0);
    });
  });
});

describe("ranges a fetch may reach besides", () => {
  test.each([
    ["0.0.0.0/0", /opens every address/],
    ["127.0.0.0/8", /covers the machine itself/],
    ["169.254.169.254", /cloud's metadata/],
    ["fe80::/64", /covers the machine itself/],
    ["198.51.100.0/24", /is on the internet/],
  ])("%s", (range, says) => {
    expect(faultsOf(withSite({ egress: [range] }))).toEqual([expect.stringMatching(says)]);
  });
});

describe("hugo", () => {
  test.each<[object, RegExp]>([
    [{ exec: ["^npx($"] }, /hugo\.exec\[0\] is no regular expression/],
    [{ http: ["^https://\n"] }, /hugo\.http\[0\] is no regular expression/],
    [{ path: "/home/me/bin/hugo" }, /hugo\.path lies where hugo's sandbox has nothing/],
  ])("%j", (hugo, says) => {
    expect(faultsOf(withSite({ hugo }))).toEqual([expect.stringMatching(says)]);
  });

  test("what only Go writes so is one", () => {
    expect(faultsOf(withSite({ hugo: { http: ["(?i)^https://(?P<host>x)/"] } }))).toEqual([]);
  });
});
