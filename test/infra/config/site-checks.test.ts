/** Sites without faults, and tables of faults by their beginnings; test/golden/messages.txt has each text whole. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { apiToken } from "../../fakes/cloudflare/api.ts";
import { release, secrets, stackConfig } from "../../fixtures.ts";
import { Root } from "../host/namespace.ts";

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
const selfManaged = { gitHost: "github-enterprise", sources: ["198.51.100.8"] };
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
/** The one fault that begins so. */
const begins = (...faults: string[]) =>
  faults.map((says) => expect.stringMatching(new RegExp(`^${says.replace(/[^\w ]/g, "\\$&")}`, "s")));
const withSite = (change: object, hook: object = https) => [{ ...hook, site: { ...site, ...change } }];
const other = (change: object) => ({
  ...https,
  name: "docs",
  site: { webRoot: "/var/www/docs", content: "/srv/docs", ...change },
});
const both = { site: secrets.site, docs: secrets.docs };
const withKey = (deployKey: unknown) => ({ site: { ...secrets.site, deployKey } });

test("there is no fault for https without a key, SSH with key and host keys, or two sites beside each other", () => {
  expect(faultsOf(withSite({}))).toEqual([]);
  const pkcs8 = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----";
  for (const key of [shaped("none"), pkcs8]) expect(faultsOf([{ ...ssh, site: overSsh }], withKey(key))).toEqual([]);
  expect(faultsOf([...withSite({}), other({})], both)).toEqual([]);
  expect(faultsOf([...withSite({ content: undefined }), other({ content: undefined })], both)).toEqual([]);
});

test("a host serves 199 sites, whose names its certificate holds beside its own", () => {
  const withSites = (count: number) => {
    const names = Array.from({ length: count }, (_, i) => `s${i}`);
    const hostnameOf = (name: string) => ({ webRoot: `/srv/${name}`, hostname: `${name}.example.org` });
    const sites = names.flatMap((name) => withSite(hostnameOf(name), { ...https, name }));
    return faultsOf(sites, Object.fromEntries(names.map((name) => [name, secrets.site])));
  };
  expect(withSites(199)).toEqual([]);
  expect(withSites(200)).toEqual(begins("hooks has 200 sites to serve, and a host's certificate holds 199"));
});

test("previews need a name for their accounts that is short enough, and that no other hook has", () => {
  const named = (name: string, ...more: string[]) => {
    const hooks = [...withSite(previewed(), { ...https, name }), ...more.map((other) => ({ ...https, name: other }))];
    return faultsOf(hooks, Object.fromEntries([name, ...more].map((each) => [each, secrets.site])));
  };
  expect(named("a".repeat(23))).toEqual([]);
  expect(named("a".repeat(24))).toEqual(
    begins(`hooks[0].site.previews have accounts named after ${"a".repeat(24)}-previews, which is too long.`),
  );
  expect(named("site", "site-previews")).toEqual(
    begins("hooks[0].site.previews are built as site-previews, which is the name of another hook."),
  );
});

test.each([
  { content: undefined, folder: "docs/site" },
  { folder: "docs/", submodules: false, paths: ["docs/layouts/", "shared/"] },
  { webRoot: "/srv/etc/site", content: "/content/home" },
  { hugo: { baseUrl: "http://localhost:1313", environment: "staging", arguments: ["--gc", "--panicOnWarning"] } },
  { hugo: { variables: { HUGO_PARAMS_a_B: 'a "b" %c $d', HUGOxPARAMSxa_b: "", HUGO_ENV: "x", NODE_ENV: "x" } } },
  { tools: { hugo: release("0.152.2") }, mirror: "https://mirror.example.org/tools/" },
  { tools: { node: release("22.20.0") }, npm: true },
  { hugo: { http: ["(?i)^https://(?P<host>x)/"] } },
  { egress: ["10.1.0.0/16", "fd12::/16"], folders: { a: "/srv/a", b: "/srv/b" }, hostname },
  { hostname: "example.org", writers: "a".repeat(31), assets: ["a".repeat(10)] },
  ...["daily UTC", "*:0/15", "*-*~01", "00:05:02.25", "Mon..Fri 06:00", "Mon *-05~07/1", "2027-01-01 12:00 Europe/Rome"]
    // Each host's systemd reads the rest.
    .map((schedule) => ({ schedule })),
])("%j is no fault", (change) => expect(faultsOf(withSite(change))).toEqual([]));

test.each(["", "Mon ", " Mon", "0 6 * * *", "@daily", "daily;", "%h", "daily\nUnit=x", "x".repeat(101)])(
  "a schedule is not %j",
  (schedule) => {
    expect(faultsOf(withSite({ schedule }))).toEqual([
      expect.stringMatching(/^hooks\[0\]\.site\.schedule is .* Use a calendar expression of systemd in quotes/),
    ]);
  },
);

const served = (folders: unknown) => ({ folders, hostname });
const previewed = (change: object = {}) => ({ previews: { hostname: "preview.example.org", ...change } });
/** What follows "hooks[0].site.". */
test.each<[says: string, object]>([
  ['content is "/var/www/site/content", inside webRoot', { content: "/var/www/site/content" }],
  ['content is "/var/lib/pushgate-sites/site", which belongs', { content: "/var/lib/pushgate-sites/site" }],
  ...["/etc/www", "/usr", "/var/spool/pushgate", "/tmp/a", "/lib/site", "/lib64/site", "/boot/site"].map(
    (webRoot): [string, object] => [`webRoot is "${webRoot}", which belongs to the system`, { webRoot }],
  ),
  ...["/var", "/root", "/opt", "/var/www"].map((webRoot): [string, object] => [
    `webRoot is "${webRoot}", which holds more than this site`,
    { webRoot },
  ]),
  [`webRoot is "/root/www", in root's home`, { webRoot: "/root/www" }],
  ...[".git", "docs/.git", ".git/modules"].map((folder): [string, object] => [
    `folder is "${folder}", in a folder that git keeps for itself`,
    { folder },
  ]),
  ['hostname is "myexample.org", which is not in', { hostname: "myexample.org" }],
  ['previews.hostname is "preview.example.net", which is not in', previewed({ hostname: "preview.example.net" })],
  [`previews.hostname repeats hooks[0].site.hostname, "${hostname}"`, { ...previewed({ hostname }), hostname }],
  ...["a*b*", "a..b", "-a", "a.lock", "a b"].map((pattern): [string, object] => [
    `previews.branches[0] is ${JSON.stringify(pattern)}`,
    previewed({ branches: [pattern] }),
  ]),
  [
    "previews have their link at /var/www/site-previews, which overlaps /var/www/site-previews/c. Use another webRoot",
    { ...previewed(), content: "/var/www/site-previews/c" },
  ],
  ["folders is set, and hostname is not, so", { folders: { files: "/srv/files" } }],
  ["folders is a list. Use an object of names", served(["/srv/files"])],
  ...["", ".well-known", "a/b", "a b", "ä"].map((name): [string, object] => [
    `folders.${name} has a name that is no part of a URL`,
    served({ [name]: "/srv/files" }),
  ]),
  ...["index.html", "robots.txt", "SITEMAP.XML"].map((name): [string, object] => [
    `folders.${name} has the name of a file that builds make`,
    served({ [name]: "/srv/files" }),
  ]),
  ['folders.files is "/srv", which holds more than', served({ files: "/srv" })],
  ['folders.files is "/etc/nginx", which belongs to', served({ files: "/etc/nginx" })],
  [
    'folders.files is "/var/www/site/files", which overlaps hooks[0].site.webRoot',
    served({ files: "/var/www/site/files" }),
  ],
  ['egress[0] is "0.0.0.0/0", which opens every address', { egress: ["0.0.0.0/0"] }],
  ...["127.0.0.0/8", "169.254.169.254", "126.0.0.0/7", "fe80::/64"].map((range): [string, object] => [
    `egress[0] is "${range}", which covers the host itself or its cloud's metadata`,
    { egress: [range] },
  ]),
  ['egress[0] is "198.51.100.0/24", which is on the internet', { egress: ["198.51.100.0/24"] }],
  ['hugo.exec[0] is "^npx($". Use a regular', { hugo: { exec: ["^npx($"] } }],
  ['hugo.http[0] is "^https://\\n". Use a regular', { hugo: { http: ["^https://\n"] } }],
  ...["--watch", "-D", "--minify", "--config=a", "--gc --quiet"].map((flag): [string, object] => [
    `hugo.arguments[0] is "${flag}". Use one of --buildDrafts, --buildExpired, --buildFuture, --gc,`,
    { hugo: { arguments: [flag] } },
  ]),
  ...["PATH", "LD_PRELOAD", "HUGO", "HUGO_", "HUGO__SECURITY_EXEC", "HUGO-A", "HUGOxSECURITYxEXECxALLOW", "hugo_a"].map(
    (name): [string, object] => [
      `hugo.variables.${name} is no name that a build may read. Use HUGO_`,
      { hugo: { variables: { [name]: "x" } } },
    ],
  ),
  ...["HUGO_BASEURL", "HUGO_baseURL", "HUGO_SECURITY_EXEC_ALLOW", "HUGO_SECURITY_FUNCS_GETENV"].map(
    (name): [string, object] => [
      `hugo.variables.${name} is none of the build's. Use baseUrl`,
      { hugo: { variables: { [name]: "x" } } },
    ],
  ),
  ["hugo.variables.HUGO_A is true, which YAML reads as a boolean", { hugo: { variables: { HUGO_A: true } } }],
  ['hugo.variables.HUGO_A is "a\\nb". Use a text of one line', { hugo: { variables: { HUGO_A: "a\nb" } } }],
  ["tools.hugo is 0.99.0, and pushgate knows no release before 0.111.3", { tools: { hugo: release("0.99.0") } }],
  ["npm is true, and hooks[0].site.tools.node is missing", { npm: true }],
  ["tools.go is not a key", { tools: { go: release("1.25.0") } }],
  ['tools.hugo is "0.152.2". Use an object with the keys version, amd64, arm64', { tools: { hugo: "0.152.2" } }],
  ["tools.sass.arm64 is missing. Use a SHA-256 in 64", { tools: { sass: { ...release("1.2.3"), arm64: undefined } } }],
  ...["1.89", "latest", "^1.89.2", "v1.89.2", "1.89.2-beta", ""].map((version): [string, object] => [
    "tools.sass.version is",
    { tools: { sass: release(version) } },
  ]),
  ...["A".repeat(64), "a".repeat(63), "a".repeat(65)].map((amd64): [string, object] => [
    `tools.node.amd64 is "${amd64}`,
    { tools: { node: { ...release("22.20.0"), amd64 } } },
  ]),
  ...[
    "http://mirror.example.org/",
    "https://192.0.2.1/",
    "https://u:p@mirror.example.org/",
    "https://m.example.org/?",
  ].map((mirror): [string, object] => ["mirror is", { mirror }]),
])("hooks[0].site.%s", (says, change) => {
  expect(faultsOf(withSite(change))).toEqual(begins(`hooks[0].site.${says}`));
});

/** Shapes that a shell, a unit, nginx or a program's options would read as something else than one path. */
const hostile = [
  ...["srv/$(id)", "srv/../etc", "srv/a b", "srv/a\tb", "srv/a\n%h", "srv/a;id", "srv/it's", 'srv/"a"', "srv/a\\b"],
  ...["srv/%h", "srv/ä", "srv/-rf", "../srv", "srv/..", "srv/./a", "srv//a"],
];
describe.each<[key: string, (text: string) => object, more: readonly string[]]>([
  // Each of the three with /etc is a folder of the system by another name.
  ["webRoot", (webRoot) => ({ webRoot }), ["srv/www", "/srv/", "//etc/www", "/./etc/www", "/../etc/www"]],
  ["content", (content) => ({ content }), ["srv/www"]],
  ["folders.files", (path) => served({ files: path }), ["srv/www"]],
  ["folder", (folder) => ({ folder }), ["/srv/www"]],
  ["paths[0]", (path) => ({ paths: [path] }), ["/srv/www"]],
])("a path in site.%s", (key, change, more) => {
  const start = more[0]!.startsWith("/") ? "" : "/";
  const kind = start === "/" ? "an absolute path" : "a relative path";
  test.each([...hostile.map((path) => start + path), ...more])("%j", (path) => {
    expect(faultsOf(withSite(change(path)))).toEqual(
      begins(`hooks[0].site.${key} is ${JSON.stringify(path)}. Use ${kind} without`),
    );
  });
  test("may have two dots inside a name", () => {
    expect(faultsOf(withSite(change(`${start}srv/..a/b..c`)))).toEqual([]);
  });
});

test.each<[key: string, (text: string) => object, string[]]>([
  [
    "hostname",
    (hostname) => ({ hostname }),
    ["$(id).example.org", "www..example.org", "*.example.org", "www.example.org."],
  ],
  ["writers", (writers) => ({ writers }), ["two words", "$(id)", "..", "-a", "a".repeat(32)]],
  [
    "hugo.baseUrl",
    (baseUrl) => ({ hugo: { baseUrl } }),
    ["/", "www.example.org", "ftp://a/", "https://a/?b", "https://a b/"],
  ],
  ["hugo.environment", (environment) => ({ hugo: { environment } }), ["-a", "a/b", "a b", "..", "a".repeat(65)]],
  ["assets[0]", (one) => ({ assets: [one] }), ["$(id)", ".css", "CSS", "a".repeat(11)]],
])("site.%s is no other text", (key, change, texts) => {
  for (const text of texts)
    expect(faultsOf(withSite(change(text)))).toEqual(begins(`hooks[0].site.${key} is ${JSON.stringify(text)}. Use `));
});

describe("host keys", () => {
  // A certificate authority would vouch for hosts that the operator never compared; a hashed name is not compared here.
  test.each([
    `@cert-authority ${line("github.com")}`,
    line("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="),
    ` ${line("github.com")}`,
    line("github.com").replace(" ", "  "),
    `${line("github.com")} a comment`,
    `${line("github.com")}\n@cert-authority ${line("*")}`,
    line("github.com").replace("ssh-ed25519", "ssh-dss"),
    line("github.com").replace("AAAA", "$(id)"),
    line("@cert-authority"),
    line("#github.com"),
    "github.com ssh-ed25519",
  ])("are not %j", (written) => {
    expect(faultsOf(withSite({ knownHosts: [written] }))).toEqual(begins("hooks[0].site.knownHosts[0] is "));
  });

  const at = (repository: string, ...knownHosts: string[]) =>
    faultsOf(
      withSite({ knownHosts }, { ...ssh, repository, ...(repository !== ssh.repository && selfManaged) }),
      withKey(shaped("none")),
    );
  test("must be of the repository's host and port, and a fault shows how to get them", () => {
    const key = "hooks[0].site.knownHosts";
    expect(at(ssh.repository)).toEqual(
      begins(
        `${key} is missing, and the repository is read over SSH. Add the lines that \`ssh-keyscan github.com\` prints`,
      ),
    );
    expect(at(ssh.repository, line("gitlab.com"))).toEqual(begins(`${key} has no line for github.com. Add`));
    const port = "ssh://git@git.example.net:2222/a/b.git";
    expect(at(port, line("git.example.net"))).toEqual(
      begins(
        `${key} has no line for [git.example.net]:2222. Add the lines that \`ssh-keyscan -p 2222 git.example.net\``,
      ),
    );
    expect(at(port, line("[git.example.net]:2222"))).toEqual([]);
    expect(at("ssh://git@Git.example.net/a/b.git", line("x.example.net,GIT.example.net"))).toEqual([]);
  });
});

describe("reports", () => {
  const key = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const standard = { name: "team", url: "https://chat.example.org/hooks/", format: "standard" };
  const [notify, slack] = [[standard], [{ ...standard, format: "slack" }]];
  const given = (more: object, change: object = {}) =>
    faultsOf(withSite(change), { site: { ...secrets.site, ...more } });
  const x = (length: number) => "x".repeat(length);
  const form = "Use 16 to 1024 ASCII characters without spaces.";
  const run =
    'Run: npx pulumi config set --secret --path pushgate:secrets.site.notify.team "whsec_$(openssl rand -base64 32)"';

  test.each<[says: string, object, object]>([
    [`is missing, and site.notify has this recipient. ${run}`, {}, { notify }],
    ["is set, but site.notify has no recipient of this name. Remove it, or add the recipient.", { team: x(40) }, {}],
    [`is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. ${run}`, { team: x(16) }, { notify }],
    [`is missing, and site.notify has this recipient. ${run.replace(/ ".*/, "")}`, {}, { notify: slack }],
    [`has fewer than 16 characters. ${form}`, { team: x(15) }, { notify: slack }],
    [`contains white space or a character outside ASCII. ${form}`, { team: `a ${x(16)}` }, { notify: slack }],
  ])("secrets.site.notify.team %s", (says, notify, change) => {
    expect(given({ notify }, change)).toEqual([`secrets.site.notify.team ${says}`]);
  });

  const mail = { name: "team", url: "mailto:team@example.org,ops@example.org", format: "email" };
  test("mail needs addresses and no secret, and only one recipient has addresses", () => {
    expect(given({}, { notify: [mail] })).toEqual([]);
    const keys = ["secrets.site.notify.team", "hooks[0].site.notify"];
    expect(given({ notify: { team: x(20) } }, { notify: [mail] })).toEqual(
      begins(`${keys[0]} is set, and a recipient of format email has no secret. Run: npx pulumi config rm`),
    );
    expect(given({}, { notify: [mail, { ...mail, name: "ops" }] })).toEqual(
      begins(`${keys[1]} has more than one recipient of format email.`),
    );
    expect(given({}, { notify: [{ ...mail, url: standard.url }] })).toEqual(
      begins(`${keys[1]}[0].url is "${standard.url}", and format is "email". Use mailto:`),
    );
    expect(given({ notify: { team: key } }, { notify: [{ ...standard, url: mail.url }] })).toEqual(
      begins(`${keys[1]}[0].url is "${mail.url}", and format is "standard".`),
    );
  });

  test.each([
    ...[
      "",
      "a",
      "-oQ/tmp@example.org",
      "a@b@example.org",
      "a b@example.org",
      "%h@example.org",
      "a@localhost",
      "a@example.org,",
    ],
    ...["a@example.org?subject=x", "a@example.org\nx", Array(11).fill("a@example.org").join(",")],
  ])("mailto:%s is no URL for site.notify", (addresses) => {
    const found = given({}, { notify: [{ ...mail, url: `mailto:${addresses}` }] });
    expect(found).toEqual(begins("hooks[0].site.notify[0].url is "));
  });

  test("all faults of recipients and their secrets come together, and none quotes a secret", () => {
    const recipients = [standard, { ...standard, name: "Team", format: "irc" }, { ...standard, name: "phone" }];
    const found = given({ notify: { team: "hunter2", ops: x(20) } }, { notify: recipients });
    expect(found).toEqual(
      begins(
        "hooks[0].site.notify[1].name is ",
        "hooks[0].site.notify[1].format is ",
        "secrets.site.notify.team has fewer than 16 characters",
        "secrets.site.notify.ops is set, but",
        "secrets.site.notify.team is no key of Standard Webhooks",
        "secrets.site.notify.phone is missing",
      ),
    );
    expect(found.join()).not.toContain("hunter2");
    expect(given({ notify: x(40) }, { notify })).toEqual(
      begins("secrets.site.notify has the wrong type. Use an object", "secrets.site.notify.team is missing"),
    );
  });

  const [token, hostname] = ["p".repeat(40), "www.example.org"];
  const purgeKey = "secrets.site.purge";
  test.each<[fault: string, more: object, change: object]>([
    [`${purgeKey} is missing, and site.purge is true. Make a token`, {}, { purge: true, hostname }],
    [`${purgeKey} is set, but the hook has no site.purge. Remove it`, { purge: token }, { hostname }],
    [`${purgeKey} is cloudflare:apiToken, with which a host`, { purge: apiToken }, { purge: true, hostname }],
    [`${purgeKey} contains white space`, { purge: "p ".repeat(20) }, { purge: true, hostname }],
    ["hooks[0].site.purge is true, and hostname is not set", { purge: token }, { purge: true, hostname: undefined }],
  ])("%s", (fault, more, change) => {
    expect(given(more, change)).toEqual(begins(fault));
  });

  test("each fault of a purge is reported, and none where it is whole", () => {
    expect(given({}, { purge: true, hostname: undefined })).toHaveLength(2);
    expect(given({ purge: token }, { purge: true, hostname })).toEqual([]);
  });

  test("there is no fault for a token, or a URL with its key", () => {
    expect(given({ status: "t".repeat(20) })).toEqual([]);
    expect(given({ notify: { team: key } }, { notify })).toEqual([]);
    const other = { ...standard, url: "https://chat.example.org:8443/?a=b" };
    expect(given({ notify: { team: key } }, { notify: [other] })).toEqual([]);
    expect(given({ notify: { team: `T0/B0/${x(16)}` } }, { notify: slack })).toEqual([]);
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
    const found = given({ notify: { team: key } }, { notify: [{ ...standard, url }] });
    expect(found).toEqual(begins("hooks[0].site.notify[0].url is "));
  });
});

describe("deploy key", () => {
  const given = (deployKey: unknown, hook: object = { ...ssh, site: overSsh }) => faultsOf([hook], withKey(deployKey));
  const run = "run: npx pulumi config set --secret --path pushgate:secrets.site.deployKey <deploy-key";

  test.each<[says: string, ...keys: unknown[]]>([
    [
      `is missing, and the repository is read over SSH. Make a key with ssh-keygen -t ed25519 -N "" -f deploy-key, give the git host deploy-key.pub for reading only, and ${run}`,
      undefined,
    ],
    ["has the wrong type. Use text.", 7],
    [`is the public half, which belongs at the git host. Instead, ${run}`, line("x").replace("x ", "")],
    [
      `is not a private key with its BEGIN and END lines. To store one, ${run}`,
      "/home/me/.ssh/id_ed25519",
      `see ${shaped("none")}`,
      `${shaped("none")} and more`,
      "see ssh-ed25519 AAAA",
      shaped("none").slice(0, 60),
    ],
    [
      `has a passphrase, which a build cannot enter. Make a key without, ssh-keygen -t ed25519 -N "" -f deploy-key, and ${run}`,
      shaped("aes256-ctr"),
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIB\n-----END RSA PRIVATE KEY-----",
    ],
  ])("%s", (says, ...keys) => {
    // The text is the whole fault, which quotes no key.
    for (const key of keys) expect(given(key)).toEqual([`secrets.site.deployKey ${says}`]);
  });

  test("for a repository over https, or for a hook without a site", () => {
    const says =
      "secrets.site.deployKey is set, but the hook has no site whose repository is read over SSH. Remove it.";
    expect(given(shaped("none"), { ...https, site })).toEqual([says]);
    expect(given(shaped("none"), ssh)).toEqual([says]);
  });

  test.for<[string, isLocked: boolean, ...string[]]>([
    ["ed25519", false, "-t", "ed25519", "-N", ""],
    ["pem", false, "-t", "ecdsa", "-m", "PEM", "-N", ""],
    ["locked", true, "-t", "ed25519", "-N", "a passphrase"],
  ])("as ssh-keygen makes them, %s, has a passphrase: %s", ([name, isLocked, ...args], { skip }) => {
    const root = new Root();
    const file = root.at(name);
    skip(spawnSync("ssh-keygen", ["-q", "-f", file, ...args]).error !== undefined, "apt-get install openssh-client");
    const key = readFileSync(file, "utf8");
    root.remove();
    for (const text of [key, key.replaceAll("\n", "\r\n").trimEnd()])
      expect(given(text)).toEqual(isLocked ? begins("secrets.site.deployKey has a passphrase") : []);
  });
});
