/** Sites without faults, and tables of faults by their beginnings; test/golden/messages.txt has each text whole. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { found } from "../../../infra/config/faults.ts";
import { flags } from "../../../infra/config/site-schema.ts";
import { apiToken } from "../../fakes/cloudflare/api.ts";
import { release, secrets } from "../../fixtures.ts";
import { Root } from "../host/namespace.ts";
import { type Changes, expectFaults, faultsOf, hook, withSite } from "./faults-of.ts";

/** Not a real key: its bytes hold OpenSSH's magic and the name of a cipher. */
const shaped = (cipher: string) => {
  const name = Buffer.from(cipher);
  const bytes = Buffer.concat([Buffer.from("openssh-key-v1\0"), Buffer.from([0, 0, 0, name.length]), name]);
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${bytes.toString("base64")}\n-----END OPENSSH PRIVATE KEY-----\n`;
};

const line = (name: string) =>
  `${name} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT`;
const key = line("github.com");
const eleven = Array(11).fill("a@example.org").join();
const hostname = "www.example.org";
const ssh = { "hooks[0].repository": "git@github.com:example/site.git" };
const withKey = (deployKey: unknown) => ({ "secrets.site.deployKey": deployKey });
const overSsh = { ...ssh, ...withSite({ knownHosts: [key] }), ...withKey(shaped("none")) };
const previewed = (change: object = {}) => ({ previews: { hostname: "preview.example.org", ...change } });
const x = (length: number) => "x".repeat(length);
const whsec = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const standard = { name: "team", url: "https://chat.example.org/hooks/", format: "standard" };
const notified = (team: string, ...notify: object[]) => ({ ...withSite({ notify }), "secrets.site.notify": { team } });

test("there is no fault for SSH with key and host keys, or two sites of the repository's own content", () => {
  expectFaults(overSsh);
  expectFaults({ ...overSsh, ...withKey("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----") });
  const docs = { ...hook, name: "docs", site: { webRoot: "/var/www/docs" } };
  expectFaults({ ...withSite({ content: undefined }), "hooks[1]": docs, "secrets.docs": secrets.docs });
});

/** Hooks with these names and sites. */
const named = (sites: Readonly<Record<string, object | undefined>>): Changes => ({
  hooks: Object.entries(sites).map(([name, site]) => ({ ...hook, name, ...(site && { site }) })),
  secrets: Object.fromEntries(Object.keys(sites).map((name) => [name, secrets.site])),
});

test("a host serves 199 sites, whose names its certificate holds beside its own", () => {
  const site = (name: string) => [name, { webRoot: `/srv/${name}`, hostname: `${name}.example.org` }] as const;
  const withSites = (count: number) =>
    named(Object.fromEntries(Array.from({ length: count }, (_, i) => site(`s${i}`))));
  expectFaults(withSites(199));
  expectFaults(withSites(200), "hooks has 200 sites to serve, and a host's certificate holds 199");
});

test("previews need a name for their accounts that is short enough, and that no other hook has", () => {
  const [site, key, long] = [{ webRoot: "/var/www/site", ...previewed() }, "hooks[0].site.previews", "a".repeat(24)];
  expectFaults(named({ ["a".repeat(23)]: site }));
  expectFaults(named({ [long]: site }), `${key} have accounts named after ${long}-previews, which is too long.`);
  const taken = named({ site, "site-previews": undefined });
  expectFaults(taken, `${key} are built as site-previews, which is the name of another hook.`);
});

test.each([
  {},
  { content: undefined, folder: "docs/site" },
  { folder: "docs/", submodules: false, paths: ["docs/layouts/", "shared/"] },
  { webRoot: "/srv/etc/site", content: "/content/home" },
  { webRoot: "/srv/..a/b..c", folder: "srv/..a/b..c", paths: ["srv/..a/b..c"] },
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
])("%j is no fault", (change) => expectFaults(withSite(change)));

/** Shapes that a shell, a unit, nginx or a program's options would read as something else than one path. */
const hostile = [
  ...["srv/$(id)", "srv/../etc", "srv/a b", "srv/a\tb", "srv/a\n%h", "srv/a;id", "srv/it's", 'srv/"a"', "srv/a\\b"],
  ...["srv/%h", "srv/ä", "srv/-rf", "../srv", "srv/..", "srv/./a", "srv//a"],
];

/** Of a site with tools and a recipient. Each value is one fault: `hooks[0].site.<key> is <value><says>`. */
test.each<[key: string, says: string, ...values: unknown[]]>([
  ["webRoot", ". Use an absolute path without", ...hostile.map((path) => `/${path}`), "srv/www", "/srv/"],
  // Each is a folder of the system by another name.
  ["webRoot", ". Use an absolute path without", "//etc/www", "/./etc/www", "/../etc/www"],
  ["content", ". Use an absolute path without", "srv/www"],
  ["folders.files", ". Use an absolute path without", "srv/www"],
  ["folder", ". Use a relative path without", ...hostile, "/srv/www"],
  ["paths[0]", ". Use a relative path without", ...hostile, "/srv/www"],
  ["content", ", inside webRoot", "/var/www/site", "/var/www/site/content"],
  ["content", ", which belongs", "/var/lib/pushgate-sites/site"],
  ["webRoot", ", which belongs to the system", "/etc/www", "/usr", "/var/spool/pushgate", "/tmp/a", "/lib/site"],
  ["webRoot", ", which belongs to the system", "/lib64/site", "/boot/site", "/var/log/pushgate-nginx"],
  ["webRoot", ", which holds more than this site", "/var", "/root", "/opt", "/var/www"],
  ["webRoot", ", in root's home", "/root/www"],
  ["folder", ", in a folder that git keeps for itself", ".git", "docs/.git", ".git/modules"],
  ["hostname", ", which is not in", "myexample.org"],
  ["hostname", ". Use ", "$(id).example.org", "www..example.org", "*.example.org", "www.example.org."],
  ["egress[0]", ", which opens every address", "0.0.0.0/0"],
  ["egress[0]", ", which covers the host itself or its cloud's metadata", "127.0.0.0/8", "169.254.169.254"],
  ["egress[0]", ", which covers the host itself or its cloud's metadata", "126.0.0.0/7", "fe80::/64"],
  ["egress[0]", ", which is on the internet", "198.51.100.0/24"],
  ["schedule", ". Use a calendar expression of systemd in quotes", "", "Mon ", " Mon", "Mon *", "0 6 * * *", "@daily"],
  ["schedule", ". Use a calendar expression of systemd in quotes", "daily;", "%h", "daily\nUnit=x", x(101)],
  ["writers", ". Use ", "two words", "$(id)", "..", "-a", "a".repeat(32)],
  ["assets[0]", ". Use ", "$(id)", ".css", "CSS", "a".repeat(11)],
  ["hugo.baseUrl", ". Use ", "/", "www.example.org", "ftp://a/", "https://a/?b", "https://a b/"],
  ["hugo.environment", ". Use ", "-a", "a/b", "a b", "..", "a".repeat(65)],
  ["hugo.exec[0]", ". Use a regular", "^npx($"],
  ["hugo.http[0]", ". Use a regular", "^https://\n"],
  ["hugo.arguments[0]", `. Use one of ${flags.join(", ")}.`, "--watch", "-D", "--minify", "--config=a", "--gc --quiet"],
  ["previews.branches[0]", ". Use a branch name with `*` once", "a*b*", "a..b", "-a", "a.lock", "a b"],
  ["hugo.variables.HUGO_A", ", which YAML reads as a boolean", true],
  ["hugo.variables.HUGO_A", ". Use a text of one line", "a\nb"],
  ["tools.hugo", ". Use an object with the keys version, amd64, arm64", "0.152.2"],
  ["tools.sass.version", ". Use an exact", "1.89", "latest", "^1.89.2", "v1.89.2", "1.89.2-beta", ""],
  ["tools.node.amd64", ". Use a SHA-256", "A".repeat(64), "a".repeat(63), "a".repeat(65)],
  ["mirror", ". Use", "http://mirror.example.org/", "https://192.0.2.1/", "https://u:p@mirror.example.org/"],
  ["mirror", ". Use", "https://m.example.org/?"],
  // A certificate authority would vouch for hosts that the operator never compared; a hashed name is not compared here.
  ["knownHosts[0]", ". Use a line", `@cert-authority ${key}`, line("@cert-authority"), line("#github.com"), ` ${key}`],
  ["knownHosts[0]", ". Use a line", line("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=")],
  ["knownHosts[0]", ". Use a line", key.replace(" ", "  "), `${key} a comment`, `${key}\n@cert-authority ${line("*")}`],
  ["knownHosts[0]", ". Use a line", key.replace("ed25519", "dss"), key.replace("AAAA", "$(id)"), key.slice(0, 22)],
  ["notify[0].url", ". Use an https:// URL", "http://chat.example.org/x", "https://chat.example.org"],
  ["notify[0].url", ". Use an https:// URL", "https://u:p@chat.example.org/x", "https://10.0.0.5/x"],
  ["notify[0].url", ". Use an https:// URL", "https://[fd00::1]/x", "https://chat/x", "https://a.example.org:70000/x"],
  ["notify[0].url", ". Use an https:// URL", "https://a.example.org/$(id)", "javascript:https://a.example.org/x"],
  ["notify[0].url", ". Use an https:// URL", "mailto:", "mailto:a", "mailto:-oQ/tmp@example.org"],
  ["notify[0].url", ". Use an https:// URL", "mailto:a@b@example.org", "mailto:a b@example.org", "mailto:a@localhost"],
  ["notify[0].url", ". Use an https:// URL", "mailto:%h@example.org", "mailto:a@example.org,", `mailto:${eleven}`],
  ["notify[0].url", ". Use an https:// URL", "mailto:a@example.org?subject=x", "mailto:a@example.org\nx"],
])("site.%s is wrong%s", (key, says, ...values) => {
  const tools = { sass: release("1.89.2"), node: release("22.20.0") };
  const more = { "hooks[0].site.tools": tools, "hooks[0].site.previews": previewed().previews };
  for (const value of values)
    expectFaults(
      { ...notified(whsec, standard), ...more, [`hooks[0].site.${key}`]: value },
      `hooks[0].site.${key} ${found(value)}${says}`,
    );
});

const served = (folders: unknown) => ({ folders, hostname });
const inFolders = (name: string) => [`folders.${name}`, served({ [name]: "/srv/files" })] as const;
const inVariables = (name: string) => [`hugo.variables.${name}`, { hugo: { variables: { [name]: "x" } } }] as const;
/** What follows "hooks[0].site.". */
test.each<[says: string, object]>([
  ['previews.hostname is "preview.example.net", which is not in', previewed({ hostname: "preview.example.net" })],
  [`previews.hostname repeats hooks[0].site.hostname, "${hostname}"`, { ...previewed({ hostname }), hostname }],
  [
    "previews have their link at /var/www/site-previews, which overlaps /var/www/site-previews/c. Use another webRoot",
    { ...previewed(), content: "/var/www/site-previews/c" },
  ],
  ["folders is set, and hostname is not, so", { folders: { files: "/srv/files" } }],
  ["folders is a list. Use an object of names", served(["/srv/files"])],
  ['folders.files is "/srv", which holds more than', served({ files: "/srv" })],
  ['folders.files is "/etc/nginx", which belongs to', served({ files: "/etc/nginx" })],
  ['folders.files is "/var/www/site/a", which overlaps hooks[0].site.webRoot', served({ files: "/var/www/site/a" })],
  ["tools.hugo is 0.99.0, and pushgate knows no release before 0.111.3", { tools: { hugo: release("0.99.0") } }],
  ["npm is true, and hooks[0].site.tools.node is missing", { npm: true }],
  ["tools.go is not a key", { tools: { go: release("1.25.0") } }],
  ["tools.sass.arm64 is missing. Use a SHA-256 in 64", { tools: { sass: { ...release("1.2.3"), arm64: undefined } } }],
])("hooks[0].site.%s", (says, change) => expectFaults(withSite(change), `hooks[0].site.${says}`));

/** A name is wrong, whatever its value is. */
test.each<[says: string, at: (name: string) => readonly [key: string, site: object], ...names: string[]]>([
  ["has a name that is no part of a URL", inFolders, "", ".well-known", "a/b", "a b", "ä"],
  ["has the name of a file that builds make", inFolders, "index.html", "robots.txt", "SITEMAP.XML"],
  ["is no name that a build may read. Use HUGO_", inVariables, "PATH", "LD_PRELOAD", "HUGO", "HUGO_", "HUGO-A"],
  ["is no name that a build may read. Use HUGO_", inVariables, "HUGO__SECURITY_EXEC", "hugo_a"],
  ["is no name that a build may read. Use HUGO_", inVariables, "HUGOxSECURITYxEXECxALLOW"],
  ["is none of the build's. Use baseUrl", inVariables, "HUGO_BASEURL", "HUGO_baseURL", "HUGO_SECURITY_EXEC_ALLOW"],
  ["is none of the build's. Use baseUrl", inVariables, "HUGO_SECURITY_FUNCS_GETENV"],
])("a key of an object %s", (says, at, ...names) => {
  for (const [key, site] of names.map(at)) expectFaults(withSite(site), `hooks[0].site.${key} ${says}`);
});

test("host keys must be of the repository's host and port, and a fault shows how to get them", () => {
  const at = (repository: string, knownHosts: string[], ...faults: string[]) => {
    const elsewhere = { "hooks[0].gitHost": "github-enterprise", "hooks[0].sources": ["198.51.100.8"] };
    const changes = { ...overSsh, ...(repository === github ? {} : elsewhere), ...withSite({ knownHosts }) };
    const says = faults.map((fault) => `hooks[0].site.knownHosts ${fault}`);
    expectFaults({ ...changes, "hooks[0].repository": repository }, ...says);
  };
  const scan = "has no line for [git.example.net]:2222. Add the lines that `ssh-keyscan -p 2222 git.example.net`";
  const missing = "is missing, and the repository is read over SSH. Add the lines that `ssh-keyscan github.com` prints";
  const [github, port] = [ssh["hooks[0].repository"], "ssh://git@git.example.net:2222/a/b.git"];
  at(github, [], missing);
  at(github, [line("gitlab.com")], "has no line for github.com. Add");
  at(port, [line("git.example.net")], scan);
  at(port, [line("[git.example.net]:2222")]);
  at("ssh://git@Git.example.net/a/b.git", [line("x.example.net,GIT.example.net")]);
  // Of another git host than the one that is named, the one fault is enough.
  const gitlab = { "hooks[0].repository": "git@gitlab.com:a/b.git", "hooks[0].site.knownHosts": [] };
  expectFaults({ ...overSsh, ...gitlab }, "hooks[0].repository");
});

describe("reports", () => {
  const slack = { ...standard, format: "slack" };
  const form = "Use 16 to 1024 ASCII characters without spaces.";
  const run =
    'Run: npx pulumi config set --secret --path pushgate:secrets.site.notify.team "whsec_$(openssl rand -base64 32)"';

  test.each<[says: string, secrets: object, ...recipients: object[]]>([
    [`is missing, and site.notify has this recipient. ${run}`, {}, standard],
    ["is set, but site.notify has no recipient of this name. Remove it, or add the recipient.", { team: x(40) }],
    [`is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. ${run}`, { team: x(16) }, standard],
    [`is missing, and site.notify has this recipient. ${run.replace(/ ".*/, "")}`, {}, slack],
    [`has fewer than 16 characters. ${form}`, { team: x(15) }, slack],
    [`contains white space or a character outside ASCII. ${form}`, { team: `a ${x(16)}` }, slack],
  ])("secrets.site.notify.team %s", (says, secrets, ...notify) => {
    const changes = { ...withSite({ notify }), "secrets.site.notify": secrets };
    expect(faultsOf(changes)).toEqual([`secrets.site.notify.team ${says}`]);
  });

  const mail = { name: "team", url: "mailto:a@example.org,b@example.org,c@example.org", format: "email" };
  test("mail needs addresses and no secret, and only one recipient has addresses", () => {
    expectFaults(withSite({ notify: [mail] }));
    const key = "hooks[0].site.notify";
    const notSecret = "is set, and a recipient of format email has no secret. Run: npx pulumi config rm";
    expectFaults(notified(x(20), mail), `secrets.site.notify.team ${notSecret}`);
    const twice = withSite({ notify: [mail, { ...mail, name: "ops" }] });
    expectFaults(twice, `${key} has more than one recipient of format email.`);
    const https = withSite({ notify: [{ ...mail, url: standard.url }] });
    expectFaults(https, `${key}[0].url is "${standard.url}", and format is "email". Use mailto:`);
    const address = notified(whsec, { ...standard, url: mail.url });
    expectFaults(address, `${key}[0].url is "${mail.url}", and format is "standard".`);
  });

  test("faults of recipients hide none of their secrets, and secrets are an object", () => {
    expectFaults(
      notified("hunter2", { ...standard, format: "irc" }),
      ...["hooks[0].site.notify[0].format is ", "secrets.site.notify.team has fewer than 16 characters"],
    );
    expectFaults(
      { ...withSite({ notify: [standard] }), "secrets.site.notify": x(40) },
      ...["secrets.site.notify has the wrong type. Use an object", "secrets.site.notify.team is missing"],
    );
  });

  const [token, purgeKey] = ["p".repeat(40), "secrets.site.purge"];
  test.each<[fault: string | undefined, purge: string | undefined, change: object]>([
    [`${purgeKey} is missing, and site.purge is true. Make a token`, undefined, { purge: true, hostname }],
    [`${purgeKey} is set, but the hook has no site.purge. Remove it`, token, { hostname }],
    [`${purgeKey} is cloudflare:apiToken, with which a host`, apiToken, { purge: true, hostname }],
    [`${purgeKey} contains white space`, "p ".repeat(20), { purge: true, hostname }],
    ["hooks[0].site.purge is true, and hostname is not set", token, { purge: true }],
    [undefined, token, { purge: true, hostname }],
  ])("%s", (fault, purge, change) => {
    expectFaults({ ...withSite(change), [purgeKey]: purge }, ...(fault ? [fault] : []));
  });

  test("there is no fault for a token, or a URL with its key", () => {
    expectFaults({ "secrets.site.status": "t".repeat(20) });
    expectFaults(notified(whsec, standard));
    expectFaults(notified(whsec, { ...standard, url: "https://chat.example.org:8443/?a=b" }));
    expectFaults(notified(`T0/B0/${x(16)}`, slack));
  });
});

describe("deploy key", () => {
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
    for (const key of keys)
      expect(faultsOf({ ...overSsh, ...withKey(key) })).toEqual([`secrets.site.deployKey ${says}`]);
  });

  test.each<Changes>([{}, { ...ssh, "hooks[0].site": undefined }])("is not for a hook with %j", (change) => {
    const says = "is set, but the hook has no site whose repository is read over SSH. Remove it.";
    expectFaults({ ...withKey(shaped("none")), ...change }, `secrets.site.deployKey ${says}`);
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
    for (const text of [key, key.replaceAll("\n", "\r\n").trimEnd()])
      expectFaults({ ...overSsh, ...withKey(text) }, ...(isLocked ? ["secrets.site.deployKey has a passphrase"] : []));
  });
});
