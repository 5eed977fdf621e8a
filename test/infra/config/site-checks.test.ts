/** Sites without faults, and a table of faults with the exact text that a user reads. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { secrets, stackConfig } from "../../fixtures.ts";

const folder = mkdtempSync(join(tmpdir(), "pushgate-keys-"));
afterAll(() => rmSync(folder, { recursive: true }));
const keygen = (name: string, ...args: string[]): string => {
  spawnSync("ssh-keygen", ["-q", "-f", join(folder, name), ...args]);
  return readFileSync(join(folder, name), "utf8");
};
const hasKeygen = spawnSync("ssh-keygen", ["-?"]).error === undefined;
/** Not a real key: its bytes hold OpenSSH's magic and the name of a cipher. */
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

test("there is no fault for https without a key, SSH with key and host keys, or two sites beside each other", () => {
  expect(faultsOf(withSite({}))).toEqual([]);
  expect(faultsOf([{ ...ssh, site: overSsh }], { site: { ...secrets.site, deployKey: shaped("none") } })).toEqual([]);
  expect(faultsOf([...withSite({}), other({})], both)).toEqual([]);
  expect(faultsOf(withSite({ egress: ["10.1.0.0/16", "fd12::/16"], keep: ["a", "ab", "b/c"] }))).toEqual([]);
});

describe("folders", () => {
  test.each<[object, string]>([
    [
      { content: "/var/www/site/content" },
      'hooks[0].site.content is "/var/www/site/content", inside webRoot, which is replaced on every publish. Move it outside webRoot.',
    ],
    [
      { content: "/var/www/site" },
      'hooks[0].site.content is "/var/www/site", inside webRoot, which is replaced on every publish. Move it outside webRoot.',
    ],
    [
      { webRoot: "/srv/content/public" },
      'hooks[0].site.webRoot is "/srv/content/public", inside content, which pushgate never writes. Move it outside content.',
    ],
    [
      { webRoot: "/etc/www" },
      `hooks[0].site.webRoot is "/etc/www", which belongs to the system. Use a folder of the site's own.`,
    ],
    [
      { webRoot: "/usr/share/nginx/html" },
      `hooks[0].site.webRoot is "/usr/share/nginx/html", which belongs to the system. Use a folder of the site's own.`,
    ],
    [
      { content: "/var/lib/pushgate-sites/site" },
      `hooks[0].site.content is "/var/lib/pushgate-sites/site", which belongs to the system. Use a folder of the site's own.`,
    ],
    [
      { webRoot: "/var/spool/pushgate" },
      `hooks[0].site.webRoot is "/var/spool/pushgate", which belongs to the system. Use a folder of the site's own.`,
    ],
    [
      { content: "/tmp/content" },
      `hooks[0].site.content is "/tmp/content", which belongs to the system. Use a folder of the site's own.`,
    ],
    [{ webRoot: "/opt" }, 'hooks[0].site.webRoot is "/opt", which holds more than this site. Use a folder below it.'],
    [
      { webRoot: "/root/www" },
      `hooks[0].site.webRoot is "/root/www", in root's home, which no web server can read. Use another folder, such as /var/www/site.`,
    ],
    [
      { keep: ["uploads", "uploads/2024"] },
      'hooks[0].site.keep[1] is "uploads/2024", which overlaps keep[0], "uploads". Keep only the wider of the two.',
    ],
    [
      { keep: ["uploads/", "uploads"] },
      'hooks[0].site.keep[1] is "uploads", which overlaps keep[0], "uploads". Keep only the wider of the two.',
    ],
  ])("%j", (change, says) => {
    expect(faultsOf(withSite(change))).toEqual([says]);
  });

  test.each<[object, string]>([
    [
      { webRoot: "/var/www/site" },
      'hooks[1].site.webRoot is "/var/www/site", which overlaps hooks[0].site.webRoot, "/var/www/site". Use separate folders.',
    ],
    [
      { webRoot: "/var/www/site/docs" },
      'hooks[1].site.webRoot is "/var/www/site/docs", which overlaps hooks[0].site.webRoot, "/var/www/site". Use separate folders.',
    ],
    [
      { webRoot: "/srv/content/docs" },
      'hooks[1].site.webRoot is "/srv/content/docs", which overlaps hooks[0].site.content, "/srv/content". Use separate folders.',
    ],
    [
      { content: "/var/www/site/docs" },
      'hooks[1].site.content is "/var/www/site/docs", which overlaps hooks[0].site.webRoot, "/var/www/site". Use separate folders.',
    ],
  ])("of two sites: %j", (change, says) => {
    expect(faultsOf([...withSite({}), other(change)], both)).toEqual([says]);
  });
});

describe("host keys", () => {
  const entries = { site: { ...secrets.site, deployKey: shaped("none") } };
  const at = (repository: string, knownHosts: string[]) =>
    faultsOf([{ ...ssh, repository, site: { ...site, knownHosts } }], entries);

  test("missing, and the fault shows how to get and compare them", () => {
    expect(at(ssh.repository, [])).toEqual([
      "hooks[0].site.knownHosts is missing, and the repository is read over SSH. Add the lines that `ssh-keyscan github.com` prints, and compare them (ssh-keygen -lf) with the fingerprints that the git host publishes.",
    ]);
  });

  test("of another host or another port", () => {
    expect(at(ssh.repository, [line("gitlab.com")])).toEqual([
      expect.stringMatching(/^hooks\[0\]\.site\.knownHosts has no line for github\.com\. Add/),
    ]);
    const port = "ssh://git@git.example.net:2222/a/b.git";
    expect(at(port, [line("git.example.net")])).toEqual([
      expect.stringMatching(
        /has no line for \[git\.example\.net\]:2222\. Add the lines that `ssh-keyscan -p 2222 git\.example\.net` prints/,
      ),
    ]);
    expect(at(port, [line("[git.example.net]:2222")])).toEqual([]);
    expect(at("ssh://git@git.example.net/a/b.git", [line("x.example.net,git.example.net")])).toEqual([]);
  });
});

describe("deploy key", () => {
  const given = (deployKey: unknown, hook: object = { ...ssh, site: overSsh }) =>
    faultsOf([hook], { site: { ...secrets.site, ...(deployKey !== undefined && { deployKey }) } as object });

  test.each<[string, unknown, string]>([
    [
      "missing",
      undefined,
      'secrets.site.deployKey is missing, and the repository is read over SSH. Make a key with ssh-keygen -t ed25519 -N "" -f deploy-key, give the git host deploy-key.pub for reading only, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
    ],
    ["a number", 7, "secrets.site.deployKey has the wrong type. Use text."],
    [
      "the public half",
      line("x").replace("x ", ""),
      "secrets.site.deployKey is the public half, which belongs at the git host. Instead, run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key",
    ],
    [
      "a path",
      "/home/me/.ssh/id_ed25519",
      "secrets.site.deployKey is not a private key with its BEGIN and END lines. To store one, run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key",
    ],
    [
      "a key without its end",
      shaped("none").slice(0, 60),
      "secrets.site.deployKey is not a private key with its BEGIN and END lines. To store one, run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key",
    ],
    [
      "OpenSSH's with a passphrase",
      shaped("aes256-ctr"),
      'secrets.site.deployKey has a passphrase, which a build cannot enter. Make a key without, ssh-keygen -t ed25519 -N "" -f deploy-key, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
    ],
    [
      "PKCS#8 with a passphrase",
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----",
      'secrets.site.deployKey has a passphrase, which a build cannot enter. Make a key without, ssh-keygen -t ed25519 -N "" -f deploy-key, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
    ],
    [
      "PEM with a passphrase",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIB\n-----END RSA PRIVATE KEY-----",
      'secrets.site.deployKey has a passphrase, which a build cannot enter. Make a key without, ssh-keygen -t ed25519 -N "" -f deploy-key, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
    ],
  ])("%s", (_, key, says) => {
    const faults = given(key);
    expect(faults).toEqual([says]);
    if (typeof key === "string") expect(faults.join()).not.toContain(key.slice(0, 60));
  });

  test("for a repository over https, or for a hook without a site", () => {
    const says =
      "secrets.site.deployKey is set, but the hook has no site whose repository is read over SSH. Remove it.";
    expect(given(shaped("none"), { ...https, site })).toEqual([says]);
    expect(given(shaped("none"), ssh)).toEqual([says]);
  });

  test("a hook with the name of another hook's deploy key", () => {
    const hooks = [...withSite({}), { ...https, name: "site-deploy-key" }];
    expect(faultsOf(hooks, { ...both, "site-deploy-key": secrets.docs, docs: undefined } as never)).toContainEqual(
      'hooks[1].name is "site-deploy-key", the name of another hook\'s deploy key on the host. Use another name.',
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

describe("egress", () => {
  test.each([
    ["0.0.0.0/0", `hooks[0].site.egress[0] is "0.0.0.0/0", which opens every address. Use the git host's own address.`],
    [
      "127.0.0.0/8",
      `hooks[0].site.egress[0] is "127.0.0.0/8", which covers the host itself or its cloud's metadata. Use the git host's own address.`,
    ],
    [
      "169.254.169.254",
      `hooks[0].site.egress[0] is "169.254.169.254", which covers the host itself or its cloud's metadata. Use the git host's own address.`,
    ],
    [
      "fe80::/64",
      `hooks[0].site.egress[0] is "fe80::/64", which covers the host itself or its cloud's metadata. Use the git host's own address.`,
    ],
    [
      "198.51.100.0/24",
      'hooks[0].site.egress[0] is "198.51.100.0/24", which is on the internet. Remove it: a fetch reaches the internet without it.',
    ],
  ])("%s", (range, says) => {
    expect(faultsOf(withSite({ egress: [range] }))).toEqual([says]);
  });
});

describe("hugo", () => {
  test.each<[object, string]>([
    [{ exec: ["^npx($"] }, `hooks[0].site.hugo.exec[0] is "^npx($". Use a regular expression, in Go's syntax.`],
    [
      { http: ["^https://\n"] },
      `hooks[0].site.hugo.http[0] is "^https://\\n". Use a regular expression, in Go's syntax.`,
    ],
    [
      { path: "/home/me/bin/hugo" },
      `hooks[0].site.hugo.path is "/home/me/bin/hugo", in a folder that Hugo's sandbox hides. Install Hugo in /usr/local/bin.`,
    ],
  ])("%j", (hugo, says) => {
    expect(faultsOf(withSite({ hugo }))).toEqual([says]);
  });

  test("Go's flags and named groups are no fault", () => {
    expect(faultsOf(withSite({ hugo: { http: ["(?i)^https://(?P<host>x)/"] } }))).toEqual([]);
  });
});
