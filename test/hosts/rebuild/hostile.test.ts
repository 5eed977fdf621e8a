/**
 * A repository whose author wants the machine: what a build may read, run and reach. Where a line of the sandbox or of
 * the egress table is what holds, it is taken out, and the same push gets through.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Files } from "../../fakes/git-repository.ts";
import { gitServerName } from "../lab/git-server.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { type Internal, internalSecret, startInternal } from "../lab/internal-services.ts";
import { actors } from "../lab/net.ts";
import { startResolver } from "../lab/resolver.ts";
import { release } from "../release.ts";
import { type HookName, placesOf, siteFiles } from "./site.ts";
import { awaitStatus, idle, nextResult, published, statusOf, timersEnd } from "./status.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;
let internal: Internal;

/** Readable for every account of the machine, as most of a machine is. */
const secret = "SECRET-OF-THE-HOST";
const secretFile = "/srv/private/secret.txt";

beforeAll(async () => {
  host = await bootHost({ name: "hostile", release, variant: "packages" });
  internal = await startInternal();
  await host.writeFile(secretFile, `${secret}\n`);
  // hugo 0.111 starts npx, 0.131 the program itself.
  for (const program of ["npx", "postcss"])
    await host.writeFile(`/usr/bin/${program}`, "#!/bin/sh\ncat\necho '/* it ran */'\n", "0755");
  rebuild = await buildRebuild(host, {
    site: { reconcileMinutes: 60 },
    docs: { reconcileMinutes: 60, hugo: { exec: ["^npx$", "^postcss$"], http: [".*"] } },
  });
  await rebuild.start();
  await timersEnd(host);
});

afterAll(async () => {
  await rebuild?.close();
  await internal?.close();
  await host?.kill();
});

/** Whatever a test took away or pushed. */
afterEach(async () => {
  await host.inside("rm -rf /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
  await host.inside(egressScript);
  for (const hook of ["site", "docs"] as const) {
    const { last } = statusOf(host, hook)!;
    if (last?.result !== "published") await built(siteFiles(), hook);
  }
});

const dropIn = async (unit: string, text: string): Promise<void> => {
  await host.writeFile(`/run/systemd/system/${unit}.d/open.conf`, text);
  await host.inside("systemctl daemon-reload");
};

const egressScript = "/usr/local/lib/pushgate/egress";

/** One question to a name server by UDP; exits 0 with any answer. */
const askName = `#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(PeerAddr => "$ARGV[0]:53", Proto => "udp") or exit 1;
$socket->send("\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\1a\\0\\0\\1\\0\\1") or exit 1;
my ($ready, $answer) = ("", "");
vec($ready, fileno($socket), 1) = 1;
exit !(select($ready, undef, undef, 2) && defined $socket->recv($answer, 512) && length $answer);
`;

let turn = 0;
/** Pushed with something that builds in any case; resolves when that build is over, whatever came of it. */
async function built(files: Files, hook: HookName = "site") {
  const before = statusOf(host, hook);
  // One that fails is tried again for ever: the push ends its pause.
  if (before?.failing === undefined) await idle(host, hook);
  const commit = await rebuild.push({ "static/turn.txt": `${++turn}`, ...files }, hook);
  return awaitStatus(host, "the build is over", ({ last }) => last?.commit === commit && last.at !== before?.last?.at, {
    hook,
  });
}

/** Anything below what is served, or was. */
const leaked = async (text: string): Promise<string> =>
  (await host.inside(`grep -rls -- '${text}' /var/lib/pushgate-sites/*/releases`, { check: false })).stdout.trim();

describe("reading", () => {
  const mounts = (source: string) =>
    ["static", "layouts", "assets", "data", "i18n", "archetypes"]
      .map((name) => `[[module.mounts]]\nsource = "${name}"\ntarget = "${name}"\n`)
      .join("") + `[[module.mounts]]\nsource = "${source}"\ntarget = "static/stolen"\n`;
  const config = (source: string) =>
    `baseURL = "https://www.example.org/"\ntheme = "plain"\n[params]\nsaid = "x"\n[module]\n${mounts(source)}`;

  test("module.mounts: a folder of the machine is not there, and without the unit's own root it is published", async () => {
    await built({ "hugo.toml": config("/srv/private") });
    expect((await rebuild.visit("/stolen/secret.txt")).status).toBe(404);
    expect(await leaked(secret)).toBe("");

    await host.inside("mkdir -p /source /content /out /cache");
    await dropIn("pushgate-hugo-site@.service", "[Service]\nRootDirectory=\n");
    await built({});
    expect((await rebuild.visit("/stolen/secret.txt")).body).toContain(secret);
    await host.inside("rmdir /source /content /out /cache");
  });

  test.each([
    ["the deploy key's credential", "/run/credentials"],
    ["another site's clone", `${placesOf("docs").site}/work/clone`],
    ["the receiver's spool", "/var/spool/pushgate"],
    ["the process list", "/proc/1"],
  ])("module.mounts: not %s", async (_, folder) => {
    await built({ "hugo.toml": config(folder) });
    const { releases } = statusOf(host)!;
    const listing = await host.read(
      `ls -A ${placesOf("site").site}/releases/${releases[0]!.id}/stolen 2>/dev/null || true`,
    );
    expect(listing).toBe("");
  });

  test("module.mounts: of /etc nothing but the local time, which the build needs", async () => {
    await built({ "hugo.toml": config("/etc") });
    const files = `find ${placesOf("site").site}/current/stolen -type f -size +0 -printf '%P\\n'`;
    expect(["", "localtime"]).toContain(await host.read(`${files} 2>/dev/null || true`));
  });

  test("symbolic links are left out, and named", async () => {
    const repository = { "hugo.toml": 'baseURL = "https://www.example.org/"\ntheme = "plain"\n' };
    const status = await built({
      ...repository,
      "static/passwd": { link: "/etc/passwd" },
      "static/private": { link: "/srv/private" },
      "static/up": { link: "../../../../../../srv/private/secret.txt" },
      "layouts/partials/linked.html": { link: secretFile },
    });
    expect(status.last!.result).toBe("published");
    const warned = status.last!.warnings.join("\n");
    for (const path of ["static/passwd", "static/private", "static/up", "layouts/partials/linked.html"])
      expect(warned).toContain(path);
    for (const path of ["/passwd", "/private/secret.txt", "/up"]) expect((await rebuild.visit(path)).status).toBe(404);
    expect(await leaked(secret)).toBe("");
    expect(await leaked("root:x:0:0")).toBe("");
  });

  test("a clone of a private repository is nobody's but the builder's", async () => {
    const { site } = placesOf("docs");
    for (const user of ["guest", "www-data", "pushgate-receiver", "pushgate-hugo"]) {
      const { code } = await host.inside(`runuser -u ${user} -- ls ${site}/work/clone`, { check: false });
      expect(code, user).not.toBe(0);
    }
  });
});

describe("running", () => {
  const mark = "#!/bin/sh\ntouch /tmp/ran /var/tmp/ran /out/ran /var/lib/pushgate-sites/site/ran 2>/dev/null\n";
  const ran = () => host.read("find / -xdev -name ran -type f 2>/dev/null || true");

  test("the deploy script only triggers, and nothing else of the repository is run by git", async () => {
    const status = await built({
      "deploy.sh": { program: mark },
      "bin/deploy": { program: mark },
      "scripts/deploy.sh": { program: mark },
      "hooks/post-checkout": { program: mark },
      ".githooks/post-merge": { program: mark },
      ".gitattributes": "* filter=run diff=run merge=run\n",
      ".gitconfig": '[filter "run"]\nsmudge = /bin/sh deploy.sh\n',
      ".gitmodules": '[submodule "x"]\npath = x\nurl = ext::sh -c "touch /tmp/ran"\nupdate = !touch /tmp/ran\n',
      x: { submodule: rebuild.repositories.site.head()! },
      "package.json": '{ "scripts": { "postinstall": "touch /tmp/ran" } }',
    });
    expect(status.last!.result).toBe("published");
    expect(await ran()).toBe("");
  });

  const css = '{{ (resources.FromString "a.css" "a{}" | resources.PostCSS).Content }}';
  const openPolicy =
    'baseURL = "/"\n[security.exec]\nallow = [".*"]\n[security.http]\nurls = [".*"]\nmethods = [".*"]\n';

  test("no program, whatever the site's own configuration allows", async () => {
    const status = await built({ "hugo.toml": openPolicy, "layouts/index.html": css });
    expect(status.last!.result).toBe("failed");
    expect(status.last!.reason).toMatch(/npx|security\.exec/);
  });

  test("but one that the operator allows", async () => {
    const status = await built({ "layouts/index.html": css }, "docs");
    expect(status.last, status.last!.reason).toMatchObject({ result: "published" });
    expect((await rebuild.visit("/", "docs")).body).toContain("it ran");
  });

  const remote = (url: string) =>
    `<p>front</p>{{ with resources.GetRemote "${url}" }}{{ with .Err }}ERR {{ . }}{{ else }}{{ .Content }}{{ end }}{{ else }}NOTHING{{ end }}`;

  test("no address is read, whatever the site's own configuration allows", async () => {
    const url = "https://git.example.net/example/docs.git/HEAD";
    await built({ "hugo.toml": openPolicy, "layouts/index.html": remote(url) });
    expect((await rebuild.visit()).body).not.toContain("refs/heads/main");
    expect(statusOf(host)!.last!.result === "failed" || (await rebuild.visit()).body.includes("ERR")).toBe(true);
  });

  test("one that the operator allows is read, and the machine's metadata is not: it is, without the table", async () => {
    await built({ "layouts/index.html": remote("https://git.example.net/example/docs.git/HEAD") }, "docs");
    expect((await rebuild.visit("/", "docs")).body).toContain("refs/heads/main");

    const metadata = { "layouts/index.html": remote("http://169.254.169.254:443/") };
    const requested = internal.requested.length;
    await built(metadata, "docs");
    expect(await leaked(internalSecret)).toBe("");
    expect(internal.requested.length).toBe(requested);

    await dropIn("pushgate-build-docs.service", "[Service]\nExecStartPre=\n");
    await host.inside("nft delete table inet pushgate_egress");
    await built(metadata, "docs");
    expect((await rebuild.visit("/", "docs")).body).toContain(internalSecret);
  });
});

/** The table itself, rule by rule: units.test.ts beside this file. */
describe("reaching", () => {
  const users = ["pushgate-builder", "pushgate-hugo"];

  test("names are asked of the machine's resolver only", async () => {
    await host.writeFile("/usr/local/bin/ask-name", askName, "0755");
    const asks = (user: string, server: string) =>
      host.inside(`runuser -u ${user} -- ask-name ${server}`, { check: false });
    const other = await startResolver(actors.resolvers.v4.at(-1)!);
    for (const user of users) await asks(user, other.address);
    expect(other.queried).toEqual([]);
    await asks("guest", other.address);
    expect(other.queried).toHaveLength(1);
    other.close();
    expect((await asks("pushgate-builder", rebuild.git.resolver.address)).code).toBe(0);
  });

  test("a git host whose name leads in-house of a sudden is not contacted there", async () => {
    await idle(host);
    rebuild.git.resolver.names.set(gitServerName, [actors.internal.v4[0]]);
    const before = statusOf(host)!;
    const requested = internal.requested.length;
    const commit = await rebuild.push(siteFiles("in-house"));
    const status = await nextResult(host, before, "failed");
    expect(status.last!.reason).toMatch(/can't be reached.*egress/);
    rebuild.git.resolver.names.set(gitServerName, rebuild.git.addresses);
    await published(host, commit, { timeout: 60_000 });
    expect(internal.requested.length).toBe(requested);
  });
});
