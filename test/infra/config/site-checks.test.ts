/** Sites without faults, and a table of faults with the exact text that a user reads. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
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
const hostname = "www.example.org";
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
const characters = (more = "") => `letters from A to Z, digits and . _ @ + = , ${more}- (not first in a name)`;
const absolute = (example: string) => `an absolute path without "..", of ${characters()}, such as ${example}`;
const relative = (more: string, example: string) =>
  `a relative path without "..", of ${characters(more)}, such as ${example}`;
const both = { site: secrets.site, docs: secrets.docs };

test("there is no fault for https without a key, SSH with key and host keys, or two sites beside each other", () => {
  expect(faultsOf(withSite({}))).toEqual([]);
  const pkcs8 = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----";
  for (const deployKey of [shaped("none"), pkcs8])
    expect(faultsOf([{ ...ssh, site: overSsh }], { site: { ...secrets.site, deployKey } })).toEqual([]);
  expect(faultsOf([...withSite({}), other({})], both)).toEqual([]);
  expect(faultsOf(withSite({ content: undefined, folder: "docs/site", schedule: "Mon..Fri 06:00" }))).toEqual([]);
  expect(faultsOf([...withSite({ content: undefined }), other({ content: undefined })], both)).toEqual([]);
  expect(faultsOf(withSite({ folder: "docs/", submodules: false, paths: ["docs/layouts/", "shared/"] }))).toEqual([]);
  expect(faultsOf(withSite({ webRoot: "/srv/etc/site", content: "/content/home" }))).toEqual([]);
  expect(faultsOf(withSite({ hugo: { path: "/opt/home/hugo" } }))).toEqual([]);
  expect(
    faultsOf(withSite({ egress: ["10.1.0.0/16", "fd12::/16"], folders: { a: "/srv/a", b: "/srv/b" }, hostname })),
  ).toEqual([]);
});

test.each([
  "",
  " ",
  "Mon ",
  " Mon",
  "0 6 * * *",
  "* * * * *",
  "@daily",
  "daily;",
  "%h",
  "$(id)",
  "daily\nUnit=x",
  "x".repeat(101),
])("a schedule is not %j; every other text is for the host's systemd to read", (schedule) => {
  const [fault, ...others] = faultsOf(withSite({ schedule }));
  expect(others).toEqual([]);
  expect(fault).toMatch(
    /^hooks\[0\]\.site\.schedule is .*\. Use a calendar expression of systemd in quotes, such as "daily" or "Mon\.\.Fri 06:00"\.$/,
  );
});

test.each([
  "daily UTC",
  "*:0/15",
  "*-*~01",
  "00:05:02.25",
  "Mon..Fri 06:00",
  "Mon *-05~07/1",
  "2027-01-01 12:00 Europe/Berlin",
])("a schedule may be %j", (schedule) => expect(faultsOf(withSite({ schedule }))).toEqual([]));

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
    [{ webRoot: "/srv/R&D" }, `hooks[0].site.webRoot is "/srv/R&D". Use ${absolute("/var/www/site")}.`],
    [
      { content: "/srv/content\n%h" },
      `hooks[0].site.content is "/srv/content\\n%h". Use ${absolute("/srv/content/site")}.`,
    ],
    [
      { hugo: { path: "/opt/`id`/hugo" } },
      `hooks[0].site.hugo.path is "/opt/\`id\`/hugo". Use ${absolute("/usr/local/bin/hugo")}.`,
    ],
    [
      { folders: { files: "/srv/-rf" }, hostname },
      `hooks[0].site.folders.files is "/srv/-rf". Use ${absolute("/srv/downloads")}.`,
    ],
    [{ paths: ["lay outs/"] }, `hooks[0].site.paths[0] is "lay outs/". Use ${relative("* ", "layouts/")}.`],
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
    ...["/lib/site", "/lib64/site", "/usr", "/boot/site"].map((webRoot): [object, string] => [
      { webRoot },
      `hooks[0].site.webRoot is "${webRoot}", which belongs to the system. Use a folder of the site's own.`,
    ]),
    ...["/var", "/root"].map((webRoot): [object, string] => [
      { webRoot },
      `hooks[0].site.webRoot is "${webRoot}", which holds more than this site. Use a folder below it.`,
    ]),
    ...[".git", "docs/.git"].map((folder): [object, string] => [
      { folder },
      `hooks[0].site.folder is "${folder}", in a folder that git keeps for itself. Use the folder that holds Hugo's configuration.`,
    ]),
    [{ webRoot: "/opt" }, 'hooks[0].site.webRoot is "/opt", which holds more than this site. Use a folder below it.'],
    [
      { webRoot: "/root/www" },
      `hooks[0].site.webRoot is "/root/www", in root's home, which no web server can read. Use another folder, such as /var/www/site.`,
    ],
    ...["../docs", "/docs", "docs/../..", "./docs"].map((folder): [object, string] => [
      { folder },
      `hooks[0].site.folder is "${folder}". Use ${relative("", "docs")}.`,
    ]),
    [{ folder: "docs;id" }, `hooks[0].site.folder is "docs;id". Use ${relative("", "docs")}.`],
    [
      { folder: ".git/modules" },
      `hooks[0].site.folder is ".git/modules", in a folder that git keeps for itself. Use the folder that holds Hugo's configuration.`,
    ],
    [
      { folders: { files: "/srv/files" } },
      "hooks[0].site.folders is set, and hostname is not, so pushgate serves nothing. Set hostname, or have your own web server serve them.",
    ],
    [
      { folders: ["/srv/files"], hostname },
      "hooks[0].site.folders is a list. Use an object of names and absolute paths, such as { downloads: /srv/downloads }.",
    ],
    ...["", ".well-known", "a/b", "a b", "ä"].map((name): [object, string] => [
      { folders: { [name]: "/srv/files" }, hostname },
      `hooks[0].site.folders.${name} has a name that is no part of a URL. Use letters from A to Z, digits and . _ -, such as downloads.`,
    ]),
    ...["index.html", "robots.txt", "SITEMAP.XML"].map((name): [object, string] => [
      { folders: { [name]: "/srv/files" }, hostname },
      `hooks[0].site.folders.${name} has the name of a file that builds make. Use another name, such as downloads.`,
    ]),
    [
      { folders: { files: "/srv" }, hostname },
      'hooks[0].site.folders.files is "/srv", which holds more than this site. Use a folder below it.',
    ],
    [
      { folders: { files: "/etc/nginx" }, hostname },
      `hooks[0].site.folders.files is "/etc/nginx", which belongs to the system. Use a folder of the site's own.`,
    ],
    [
      { folders: { files: "/var/www/site/files" }, hostname },
      'hooks[0].site.folders.files is "/var/www/site/files", which overlaps hooks[0].site.webRoot. Use a folder beside it.',
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

/** Shapes that a shell, a unit, nginx or a program's options would read as something else than one path. */
describe.each<[string, (text: string) => object, { absolute: boolean; such: string; more?: string }]>([
  ["webRoot", (webRoot) => ({ webRoot }), { absolute: true, such: "/var/www/site" }],
  ["content", (content) => ({ content }), { absolute: true, such: "/srv/content/site" }],
  ["hugo.path", (path) => ({ hugo: { path } }), { absolute: true, such: "/usr/local/bin/hugo" }],
  ["folder", (folder) => ({ folder }), { absolute: false, such: "docs" }],
  ["folders.files", (path) => ({ folders: { files: path }, hostname }), { absolute: true, such: "/srv/downloads" }],
  ["paths[0]", (path) => ({ paths: [path] }), { absolute: false, such: "layouts/", more: "* " }],
])("a path in site.%s", (key, change, { absolute: isAbsolute, such, more = "" }) => {
  const start = isAbsolute ? "/" : "";
  const use = isAbsolute ? absolute(such) : relative(more, such);
  test.each([
    ...[
      "srv/a b",
      "srv/a\tb",
      "srv/$(id)",
      "srv/a;id",
      "srv/it's",
      'srv/"a"',
      "srv/a\\b",
      "srv/%h",
      "srv/ä",
      "srv/-rf",
    ],
    ...["../srv", "srv/../etc", "srv/..", "srv/./a", "srv//a"],
  ])("%j", (path) => {
    const written = start + path;
    expect(faultsOf(withSite(change(written)))).toEqual([
      `hooks[0].site.${key} is ${JSON.stringify(written)}. Use ${use}.`,
    ]);
    // Two dots inside a name are no way up.
    expect(faultsOf(withSite(change(`${start}srv/..a/b..c`)))).toEqual([]);
  });
  // Each of the three with /etc is a folder of the system by another name.
  test.each(isAbsolute ? ["srv/www", "/srv/", "//etc/www", "/./etc/www", "/../etc/www", "/srv//www"] : ["/srv/www"])(
    "%j, in itself",
    (written) => {
      expect(faultsOf(withSite(change(written)))).toEqual([`hooks[0].site.${key} is "${written}". Use ${use}.`]);
    },
  );
});

describe("other text of a site", () => {
  const hostname = "a DNS name in lower case, such as www.example.org";
  const group = "the name of a group";
  const version = "a version, such as 0.111.3";
  const extension = "an extension without its dot, such as css";
  test.each<[string, (text: string) => object, string, string[]]>([
    [
      "hostname",
      (hostname) => ({ hostname }),
      hostname,
      [
        "www example.org",
        "$(id).example.org",
        "www..example.org",
        '"www".example.org',
        "*.example.org",
        "www.example.org.",
      ],
    ],
    ["writers", (writers) => ({ writers }), group, ["two words", "$(id)", "..", "'a'", "-a", "a".repeat(32)]],
    [
      "hugo.minimum",
      (minimum) => ({ hugo: { minimum } }),
      version,
      ["0.1 1", "$(id)", "0..1", '"0.111"', "1", "0.1.2.3"],
    ],
    [
      "assets[0]",
      (one) => ({ assets: [one] }),
      extension,
      ["c s", "$(id)", "..", "'css'", ".css", "CSS", "a".repeat(11)],
    ],
  ])("%s", (key, change, use, texts) => {
    for (const text of texts)
      expect(faultsOf(withSite(change(text)))).toEqual([
        `hooks[0].site.${key} is ${JSON.stringify(text)}. Use ${use}.`,
      ]);
  });

  test("the longest name of a group and of an extension are no fault", () => {
    expect(faultsOf(withSite({ writers: "a".repeat(31), assets: ["a".repeat(10)] }))).toEqual([]);
  });

  // A certificate authority would vouch for hosts that the operator never compared; a hashed name is not compared here.
  test.each([
    `@cert-authority ${line("github.com")}`,
    `@cert-authority *.example.net ${line("").trim()}`,
    `@revoked ${line("github.com")}`,
    line("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="),
    `# ${line("github.com")}`,
    ` ${line("github.com")}`,
    line("github.com").replace(" ", "  "),
    `${line("github.com")} a comment`,
    `${line("github.com")}\n@cert-authority ${line("*")}`,
    line("github.com").replace("ssh-ed25519", "ssh-dss"),
    line("github.com").replace("AAAA", "$(id)"),
    line("@cert-authority"),
    line("#github.com"),
    "github.com ssh-ed25519",
  ])("knownHosts: %j", (written) => {
    const [fault, ...more] = faultsOf([{ ...https, site: { ...site, knownHosts: [written] } }]);
    expect(more).toEqual([]);
    expect(fault).toMatch(
      /^hooks\[0\]\.site\.knownHosts\[0\] is ".+Use a line as ssh-keyscan prints it, with name, key type and key\.$/s,
    );
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

describe("reports", () => {
  const key = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const notify = "https://chat.example.org/hooks/builds";
  const token = "t".repeat(20);
  const given = (more: object, change: object = {}, hook: object = https) =>
    faultsOf(withSite(change, hook), { site: { ...secrets.site, ...more } });
  const run = 'npx pulumi config set --secret --path pushgate:secrets.site.notify "whsec_$(openssl rand -base64 32)"';

  test("there is no fault for a token, or a URL with its key", () => {
    expect(given({ status: token })).toEqual([]);
    expect(given({ notify: key }, { notify })).toEqual([]);
    expect(given({ notify: key, status: token }, { notify: "https://chat.example.org:8443/?a=b" })).toEqual([]);
  });

  test("the settings hold whether there is a token, and neither token nor key", () => {
    const config = {
      "pushgate:hooks": withSite({ notify }),
      "pushgate:secrets": { site: { ...secrets.site, status: token, notify: key } },
    };
    const { settings, secrets: found } = parseSettings(stackConfig(config), () => true);
    expect(settings.hooks[0]).toMatchObject({ setsStatus: true, site: { notify } });
    expect(JSON.stringify(settings)).not.toMatch(/whsec_|tttt/);
    expect(found).toMatchObject({ "site.status": [token], "site.notify": [key] });
    const without = parseSettings(
      stackConfig({ "pushgate:hooks": withSite({}), "pushgate:secrets": { site: secrets.site } }),
      () => true,
    );
    expect(without.settings.hooks[0]).not.toHaveProperty("setsStatus");
  });

  test.each<[string, object, object, object]>([
    [`secrets.site.notify is missing, and site.notify is set. Run: ${run}`, {}, { notify }, https],
    [
      "secrets.site.notify is set, but the hook has no site.notify. Remove it, or set the URL.",
      { notify: key },
      {},
      https,
    ],
    [
      `secrets.site.notify is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: ${run}`,
      { notify: "x".repeat(40) },
      { notify },
      https,
    ],
    [
      "secrets.site.status has fewer than 20 characters. Use the token as the git host shows it.",
      { status: "t".repeat(19) },
      {},
      https,
    ],
    [
      "secrets.site.status is set, but gogs has no API for the result of a build. Remove it.",
      { status: token },
      {},
      { ...https, gitHost: "gogs", sources: ["198.51.100.0/28"], repository: "https://git.example.net/a/b.git" },
    ],
  ])("%s", (fault, more, change, hook) => {
    expect(given(more, change, hook)).toEqual([fault]);
  });

  test("a token for a hook without a site is a fault", () => {
    expect(faultsOf([https], { site: { ...secrets.site, status: token } })).toEqual([
      "secrets.site.status is set, but the hook has no site, so that no build has a result. Remove it.",
    ]);
  });

  test.each([
    "http://chat.example.org/x",
    "https://chat.example.org",
    "https://u:p@chat.example.org/x",
    "https://10.0.0.5/x",
    "https://[fd00::1]/x",
    "https://chat/x",
    "https://a.example.org:70000/x",
    "https://a.example.org/$(id)",
    "javascript:https://a.example.org/x",
  ])("%s is no URL for site.notify", (url) => {
    expect(given({ notify: key }, { notify: url })).toEqual([
      expect.stringMatching(/^hooks\[0\]\.site\.notify is .* Use an https:/),
    ]);
  });
});

describe("deploy key", () => {
  const given = (deployKey: unknown, hook: object = { ...ssh, site: overSsh }) =>
    faultsOf([hook], { site: { ...secrets.site, ...(deployKey !== undefined && { deployKey }) } as object });

  test.each<[says: string, ...keys: unknown[]]>([
    [
      'secrets.site.deployKey is missing, and the repository is read over SSH. Make a key with ssh-keygen -t ed25519 -N "" -f deploy-key, give the git host deploy-key.pub for reading only, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
      undefined,
    ],
    ["secrets.site.deployKey has the wrong type. Use text.", 7],
    [
      "secrets.site.deployKey is the public half, which belongs at the git host. Instead, run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key",
      line("x").replace("x ", ""),
    ],
    [
      "secrets.site.deployKey is not a private key with its BEGIN and END lines. To store one, run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key",
      "/home/me/.ssh/id_ed25519",
      `see ${shaped("none")}`,
      `${shaped("none")} and more`,
      "see ssh-ed25519 AAAA",
      shaped("none").slice(0, 60),
    ],
    [
      'secrets.site.deployKey has a passphrase, which a build cannot enter. Make a key without, ssh-keygen -t ed25519 -N "" -f deploy-key, and run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key',
      shaped("aes256-ctr"),
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIB\n-----END RSA PRIVATE KEY-----",
    ],
  ])("%s", (says, ...keys) => {
    for (const key of keys) {
      const faults = given(key);
      expect(faults).toEqual([says]);
      if (typeof key === "string") expect(faults.join()).not.toContain(key.slice(0, 60));
    }
  });

  test("for a repository over https, or for a hook without a site", () => {
    const says =
      "secrets.site.deployKey is set, but the hook has no site whose repository is read over SSH. Remove it.";
    expect(given(shaped("none"), { ...https, site })).toEqual([says]);
    expect(given(shaped("none"), ssh)).toEqual([says]);
  });

  describe("as ssh-keygen makes them", () => {
    let keys: Record<string, string>;
    beforeEach(({ skip }) => skip(!hasKeygen, "ssh-keygen not installed: apt-get install openssh-client"));
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
      "126.0.0.0/7",
      `hooks[0].site.egress[0] is "126.0.0.0/7", which covers the host itself or its cloud's metadata. Use the git host's own address.`,
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
