/**
 * The builder's layers on a host, with the real builder, Hugo, and git over SSH and HTTPS: each sandbox, with its
 * protections removed to prove them; and the report of manual changes.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Credentials, Settings } from "../../../infra/config/settings.ts";
import { builderUser, generatorUser, paths, units } from "../../../infra/host/paths.ts";
import { anywhere, bundled } from "../../service/bundles.ts";
import { beneath, DirectApply, rebuildLayers, settingsOf } from "../apply-directly.ts";
import { exposures } from "../exposure.ts";
import { type GitServer, startGitServer } from "../lab/git-server.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { type Internal, internalSecret, startInternal } from "../lab/internal-services.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { idle, timersBegin, timersEnd } from "./status.ts";

const page = "<!doctype html><title>{{ .Title }}</title>{{ .Content }}";
const theme = {
  "layouts/index.html": page,
  "layouts/_default/single.html": page,
  "layouts/_default/list.html": page,
  "static/css/site.css": "p{}",
  "hugo.toml": 'title = "one"\n',
  "config.toml": 'title = "one"\n',
};

let host: Host;
let git: GitServer;
let internal: Internal;
let direct: DirectApply;
let settings: Settings;
let secrets: Credentials;
let hooks: [Record<string, unknown>, Record<string, unknown>];

const served = (path: string) => host.inside(`cat ${path}`, { check: false }).then(({ stdout }) => stdout);
const shows = (path: string, text: string) =>
  until(`${path} contains ${text}`, async () => ((await served(path)).includes(text) ? true : undefined));
const last = async (hook: string) => {
  const text = await served(`/var/lib/pushgate-sites/${hook}/status.json`);
  return text === "" ? undefined : (JSON.parse(text) as { last: { at: string; result: string; reason: string } }).last;
};
const tick = (hook: string) => host.inside(`systemctl start ${units.reconcile(hook)}`);
/** Starts a run of the builder, and waits for its result. */
async function runOnce(hook: string) {
  const before = (await last(hook))?.at;
  await tick(hook);
  return until(`the builder of ${hook} reports a result`, async () => {
    const now = await last(hook);
    return now?.at === before ? undefined : now;
  });
}
/** Runs `work` while no build runs, with the folder and the file that Hugo's unit binds. */
async function withoutBuilds<T>(hook: string, work: () => Promise<T>): Promise<T> {
  await host.inside(`systemctl stop ${units.buildPath(hook)} ${units.build(hook)}
cd /var/lib/pushgate-sites/${hook}/work && rm -rf out && install -d -m 0777 -o ${builderUser(hook)} out`);
  try {
    return await work();
  } finally {
    await host.inside(`systemctl start ${units.buildPath(hook)}`);
  }
}
/** A timer's run a minute after boot would start the .path unit and a build in the middle of a test of one. */
function withoutTimers(): void {
  beforeAll(() => timersEnd(host));
  afterAll(() => timersBegin(host));
}
/** Runs `work` with a drop-in for the unit. */
async function withDropIn<T>(unit: string, lines: string, work: () => Promise<T>): Promise<T> {
  const folder = `/run/systemd/system/${unit}.d`;
  await host.writeFile(`${folder}/taken.conf`, `[Service]\n${lines}\n`);
  await host.inside("systemctl daemon-reload");
  try {
    return await work();
  } finally {
    await host.inside(`rm -r ${folder} && systemctl daemon-reload`);
  }
}
/** Waits for the end of a former build's unit: as long as it is there, systemd closes each connection at once. */
const hugoIsGone = (hook: string) =>
  until(
    `Hugo's unit for ${hook} is gone`,
    async () =>
      (await host.read(`systemctl list-units --no-legend 'pushgate-generator-${hook}@*'`)) === "" || undefined,
  );
const endOf = (hook: string) => `/run/pushgate-generator/results/${hook}/last`;
/**
 * Starts Hugo's unit by its socket, as the builder does; returns the lines of its output and, last, how root reports
 * that this build ended.
 */
async function startHugo(hook: string): Promise<string[]> {
  await hugoIsGone(hook);
  const { stdout } = await host.inside(
    `runuser -u ${builderUser(hook)} -- perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => "/run/pushgate-generator/${hook}.sock") or die $!; print while <$s>'`,
  );
  const [first = "", ...lines] = stdout.trim().split("\n");
  const [, id] = /^pushgate-generator build=([0-9a-f]{32})$/.exec(first)!;
  const end = await until("root reports the end", async () => {
    const text = await served(endOf(hook));
    return text.startsWith(`${id} `) ? text.trim().slice(33) : undefined;
  });
  return [...lines, end];
}

beforeAll(async () => {
  [host, git, internal] = await Promise.all([
    bootHost({ name: "rebuild", release, variant: "packages" }),
    startGitServer(),
    startInternal(),
  ]);
  await git.introduce(host);
  await host.inside(`set -e
groupadd writers
mkdir -p /srv/content/site /home/guest/content
chmod 0700 /home/guest
printf -- '---\\ntitle: home\\n---\\nhello\\n' | tee /srv/content/site/_index.md >/home/guest/content/_index.md
chown -R guest:writers /home/guest/content && chmod -R g=rX,o= /home/guest/content`);
  git.repository("site").push(theme);
  git.repository("docs").push(theme);
  hooks = [
    {
      name: "site",
      gitHost: "github",
      repository: git.url("site"),
      branch: "main",
      site: {
        webRoot: "/var/www/site",
        content: "/srv/content/site",
        limits: { memoryMiB: 128, tasks: 64, seconds: 20 },
      },
    },
    {
      name: "docs",
      gitHost: "github",
      repository: git.ssh.url("docs"),
      branch: "main",
      site: {
        webRoot: "/srv/docs",
        content: "/home/guest/content",
        writers: "writers",
        knownHosts: [git.ssh.knownHosts],
      },
    },
  ];
  settings = settingsOf(host, hooks);
  secrets = { site: ["s".repeat(40)], docs: ["d".repeat(40)], "docs.deploy-key": [git.ssh.deployKey] };
  direct = new DirectApply(host);
  const ran = await direct.apply(settings, [...beneath, "builder-program", "egress", "builder"], secrets);
  expect(ran.code, ran.stderr).toBe(0);
});

afterAll(async () => {
  await git?.close();
  await internal?.close();
  await host?.kill();
});

const memberFolder = "/var/spool/pushgate-publish/docs";
const rootFolder = "/var/spool/pushgate-root/docs";
/** As a member of the writers' group. */
const asMember = (command: string) => host.inside("runuser -u guest -- sh -s", { stdin: command, check: false });

test("only root and the builder can enter the folder of root's requests, and members only their own", async () => {
  await host.inside("usermod -aG writers guest");
  const rows = await host.read(`stat -c '%n %a %U:%G' ${rootFolder} ${memberFolder}`);
  expect(rows.split("\n")).toEqual([
    `${rootFolder} 770 root:pushgate-build-docs`,
    `${memberFolder} 1730 pushgate-build-docs:writers`,
  ]);
  for (const attempt of [`ls ${rootFolder}`, `: >${rootFolder}/tick`, `mv -T ${rootFolder} ${memberFolder}/x`]) {
    const { code, stderr } = await asMember(attempt);
    expect({ code, stderr }).toEqual({ code: expect.any(Number), stderr: expect.stringContaining("ermission denied") });
  }
});

test("the site layer fails where a folder is in a web root's place, and changes nothing; then the builder publishes", async () => {
  await host.inside("mkdir /srv/docs && echo former >/srv/docs/index.html");
  const refused = await direct.apply(settings, ["site"]);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(
    "/srv/docs is taken, and pushgate makes its own link there. Run mv /srv/docs /srv/docs.former on the host.",
  );
  expect(await served("/srv/docs/index.html")).toBe("former\n");
  await host.inside("mv /srv/docs /srv/docs.former");
  const ran = await direct.apply(settings, ["site"]);
  expect(ran.code, ran.stderr).toBe(0);
  // Their first builds start with the timer, a minute after boot, or with a request.
  for (const [hook, webRoot] of [
    ["site", "/var/www/site"],
    ["docs", "/srv/docs"],
  ] as const) {
    expect(await host.read(`readlink ${webRoot}`)).toBe(`/var/lib/pushgate-sites/${hook}/current`);
    await tick(hook);
    await shows(`${webRoot}/index.html`, "hello");
  }
  expect(git.ssh.commands().every((command) => command.startsWith("git-upload-pack"))).toBe(true);
});

test("the preview right after is clean", async () => {
  for (const [name, verdict] of Object.entries(await direct.probe(settings, rebuildLayers)))
    expect(verdict, name).toMatchObject({ inSync: true, drift: [] });
});

test("systemd rates each service at its known exposure", async () => {
  const ofEach = (hook: string) => ({
    [`build@${hook}`]: 1.1,
    [`content@${hook}`]: 1.4,
    [`stop-${hook}@`]: 0.9,
  });
  expect(await exposures(host)).toEqual({
    ...ofEach("site"),
    ...ofEach("docs"),
    "generator-site@": 0.2,
    "generator-docs@": 0.2,
    "agent@docs": 0.3,
    "report@": 1.1,
    "reconcile@": 0.7,
    "schedule@": 0.7,
    egress: 3.1,
    receiver: 0.2,
  });
});

describe("the sandbox of Hugo's unit", () => {
  withoutTimers();
  const mounts = `title = "two"
[[module.mounts]]
source = "/etc/pam.d"
target = "static/stolen"
[[module.mounts]]
source = "layouts"
target = "layouts"
[[module.mounts]]
source = "/content"
target = "content"
`;
  const stolen = "/var/lib/pushgate-sites/site/work/out/stolen/common-auth";

  test("a site that mounts a folder of the host publishes nothing of it, and would without the unit's own root", async () => {
    git.repository("site").push({ ...theme, "hugo.toml": mounts, "config.toml": mounts });
    await runOnce("site");
    expect(await host.read("find /var/lib/pushgate-sites/site/releases -name common-auth")).toBe("");
    await withoutBuilds("site", async () => {
      expect((await startHugo("site")).at(-1)).toMatch(/^(success|exit-code) exited /);
      expect(await served(stolen)).toBe("");
      const note = "BindReadOnlyPaths=/run/pushgate-generator/root/content-of-site:/content-of-site";
      await withDropIn(
        "pushgate-generator-site@.service",
        `RootDirectory=\nProtectHome=no\nProtectSystem=no\n${note}`,
        () => startHugo("site"),
      );
      expect(await served(stolen)).toContain("pam_unix");
    });
    await host.inside("rmdir /source /content /out /cache && rm /content-of-site");
    git.repository("site").push(theme);
    expect(await runOnce("site")).toMatchObject({ result: "published" });
  });

  test("Hugo's unit reports how it ended: a time limit, a signal, an exit code, too many tasks, too much memory", async () => {
    const ended = (exec: string, lines = "") =>
      withDropIn("pushgate-generator-site@.service", `ExecStart=\nExecStart=${exec}\n${lines}`, () =>
        startHugo("site"),
      );
    const many =
      "#!/usr/bin/perl\nfor (1..200) { my $p = fork; defined $p or die qq(no more: $!\\n); sleep 20, exit unless $p }\n";
    await host.writeFile("/usr/local/lib/many", many, "0755");
    await host.writeFile("/usr/local/lib/much", '#!/usr/bin/perl\nmy @a; push @a, "x" x 1e6 while 1\n', "0755");
    await withoutBuilds("site", async () => {
      expect((await ended("/usr/bin/sleep 60", "RuntimeMaxSec=1")).at(-1)).toBe("timeout killed TERM");
      expect((await ended("/bin/sh -c 'kill -9 $$$$'")).at(-1)).toBe("signal killed KILL");
      expect((await ended("/bin/sh -c 'exit 3'")).at(-1)).toBe("exit-code exited 3");
      expect((await ended("/usr/local/lib/many")).join("\n")).toContain("no more: Resource temporarily unavailable");
      // The control group ends it if the kernel counts memory; otherwise the process's own limit does.
      expect((await ended("/usr/local/lib/much")).join("\n")).toMatch(/Out of memory|^oom-kill/im);
    });
    await host.inside("rm /usr/local/lib/many /usr/local/lib/much");
  });

  test("the end of a build is reported when none of its processes is left, however it detached itself", async () => {
    const lives = `#!/usr/bin/perl
use POSIX;
$SIG{TERM} = $SIG{HUP} = "IGNORE";
# The connection goes at once: its reader must not take this for the end.
print "pushgate-generator result=success code=exited status=0\n";
open(my $connection, "+<&=", 3) and shutdown($connection, 2);
for (1..3) { next if fork; POSIX::setsid(); fork and exit; sleep 25; exit }
`;
    await host.writeFile("/usr/local/lib/lives", lives, "0755");
    const seen = "/run/pushgate-generator/results/site/seen";
    const uid = await host.read(`id -u ${generatorUser("site")}`);
    // Root looks right before it reports the end, at the host's /proc: systemd 257 mounts none for it.
    const reports = await host.read("grep '^ExecStopPost=+' /etc/systemd/system/pushgate-generator-site@.service");
    const look = `ExecStopPost=\nExecStopPost=+-/bin/sh -c 'stat -c %%u /all/[0-9]* >/result/seen'\n${reports}\nBindReadOnlyPaths=/proc:/all`;
    const ended = (lines = "") =>
      withDropIn(
        "pushgate-generator-site@.service",
        `ExecStart=\nExecStart=/usr/local/lib/lives\nTimeoutStopSec=5s\n${lines}\n${look}`,
        async () => {
          await host.inside(`rm -f ${seen}`);
          const end = (await startHugo("site")).at(-1);
          const uids = await until("root looked", async () => (await served(seen)).trim() || undefined);
          return { end, lived: uids.split("\n").includes(uid) };
        },
      );
    await withoutBuilds("site", async () => {
      expect(await ended()).toEqual({ end: "timeout exited 0", lived: false });
      // Where systemd leaves the processes of the control group alone, they are there.
      expect(await ended("KillMode=process")).toEqual({ end: "success exited 0", lived: true });
    });
    await host.inside(`rm -f ${seen} /usr/local/lib/lives; pkill -KILL -U ${uid} || :`);
  });

  test("a build cannot write how it ended, and could if the folder were its account's", async () => {
    const forge = "/bin/sh -c 'echo forged >/result/last'";
    const forged = async () => {
      await hugoIsGone("site");
      await withDropIn("pushgate-generator-site@.service", `ExecStart=\nExecStart=-${forge}\nExecStopPost=`, () =>
        host.inside(
          `runuser -u ${builderUser("site")} -- perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => "/run/pushgate-generator/site.sock"); print while <$s>'`,
        ),
      );
      await hugoIsGone("site");
      return (await served(endOf("site"))) === "forged\n";
    };
    await withoutBuilds("site", async () => {
      expect(await forged()).toBe(false);
      const folder = "/run/pushgate-generator/results/site";
      await host.inside(`chown -R ${generatorUser("site")} ${folder}`);
      expect(await forged()).toBe(true);
      await host.inside(`chown -R root ${folder}`);
    });
  });

  test("a build ends no process of another site's build, and would if the sites shared an account", async () => {
    const victim = `systemd-run --quiet --unit=victim -p User=${generatorUser("docs")} sleep 300`;
    const isActive = () => host.read("systemctl is-active victim.service || true");
    const killAll = "ExecStart=\nExecStart=-/bin/sh -c 'kill -9 -1'";
    await withoutBuilds("site", async () => {
      await host.inside(victim);
      await withDropIn("pushgate-generator-site@.service", killAll, () => startHugo("site"));
      expect(await isActive()).toBe("active");
      await withDropIn("pushgate-generator-site@.service", `${killAll}\nUser=${generatorUser("docs")}`, () =>
        startHugo("site"),
      );
      await until("systemd has noticed", async () => (await isActive()) !== "active" || undefined);
    });
    await host.inside("systemctl reset-failed victim.service");
  });

  test("Hugo's unit has no network, no account database and no home", async () => {
    const probe = "/bin/sh -c 'cat /etc/passwd; ls /home /var/lib /run/credentials; cat /proc/net/dev'";
    const said = await withoutBuilds("site", () =>
      withDropIn("pushgate-generator-site@.service", `ExecStart=\nExecStart=-${probe}`, () => startHugo("site")),
    );
    expect(said.join("\n")).toMatch(/passwd: No such file[\s\S]*\/home[\s\S]*No such file/);
    expect(said.join("\n")).not.toContain("host0");
  });
});

describe("the builder's unit", () => {
  withoutTimers();
  /** What a process in the builder's unit of docs, whose repository is reached over SSH, prints. */
  async function inBuilder(script: string, lines = ""): Promise<string> {
    const seen = "/var/lib/pushgate-sites/docs/seen";
    await host.writeFile("/usr/local/lib/look", `#!/bin/sh\n${script}\n`, "0755");
    return withoutBuilds("docs", () =>
      withDropIn(
        units.build("docs"),
        `ExecStart=\nExecStart=/bin/sh -c '/usr/local/lib/look >${seen} 2>&1'\nRestart=no\n${lines}`,
        async () => {
          await host.inside(`systemctl start ${units.build("docs")}`, { check: false });
          await until("it ended", async () =>
            (await host.read(`systemctl show -P ActiveState ${units.build("docs")}`)) === "active" ? undefined : true,
          );
          const text = await served(seen);
          await host.inside(`rm -f ${seen} /usr/local/lib/look; systemctl reset-failed ${units.build("docs")} || :`);
          return text;
        },
      ),
    );
  }

  test("sees no folder of another site, and would without its own view of them", async () => {
    const look = "cd / && ls -d var/lib/pushgate-sites/* var/spool/pushgate/* var/spool/pushgate-publish/*";
    const all = ["docs", "site"].flatMap((hook) =>
      ["lib/pushgate-sites", "spool/pushgate", "spool/pushgate-publish"].map((folder) => `var/${folder}/${hook}`),
    );
    expect((await inBuilder(look)).trim().split("\n").sort()).toEqual(
      all.filter((path) => path.endsWith("docs")).sort(),
    );
    const open = await inBuilder(look, "TemporaryFileSystem=\nBindPaths=");
    expect(open.trim().split("\n").sort()).toEqual(all.sort());
  });

  test("cannot read another site's clone, and could if the sites shared an account", async () => {
    const open = "TemporaryFileSystem=\nBindPaths=";
    const look = "cat /var/lib/pushgate-sites/site/work/clone/hugo.toml";
    expect(await inBuilder(look, open)).toContain("Permission denied");
    const shared = `${open}\nReadWritePaths=/var/lib/pushgate-sites/docs /var/lib/pushgate-sites/site`;
    await host.inside("chmod 0777 /var/lib/pushgate-sites/docs");
    expect(await inBuilder(look, `${shared}\nUser=${builderUser("site")}`)).toContain("title = ");
    await host.inside("chmod 0755 /var/lib/pushgate-sites/docs");
  });

  test("has no deploy key while it fetches, only an agent that signs; it would with a credential", async () => {
    const key = git.ssh.deployKey.split("\n")[2]!;
    const look = `for file in /run/credentials/*/* /proc/[0-9]*/root/run/credentials/*/* /proc/[0-9]*/environ; do grep -F '${key.slice(0, 40)}' "$file"; done
find / -name 'deploy-key*' -not -path '/proc/*'
SSH_AUTH_SOCK=/run/pushgate-agent-docs/socket ssh-add -l`;
    const said = await inBuilder(look);
    expect(said).toMatch(/^256 SHA256:/m);
    expect(said).not.toContain(key.slice(0, 40));
    expect(said).not.toContain("/deploy-key");
    const given = "LoadCredentialEncrypted=deploy-key:/etc/pushgate/credentials/docs.deploy-key";
    expect(await inBuilder(look, given)).toContain(key.slice(0, 40));
    // systemd stops what no unit needs a moment later, and the timer may have started a build in between.
    await until("the agent ended with the build", async () =>
      (await host.read(`systemctl is-active ${units.agent("docs")} || true`)) === "inactive" ? true : undefined,
    );
  });
});

describe("`build.writeStats`", () => {
  withoutTimers();
  const written = "/var/lib/pushgate-sites/site/work/stats.json";
  const stats = "\n[[module.mounts]]\nsource = 'hugo_stats.json'\ntarget = 'assets/stats/hugo_stats.json'\n";
  const mounts = ["assets", "layouts", "static"]
    .map((name) => `[[module.mounts]]\nsource = '${name}'\ntarget = '${name}'\n`)
    .join("");
  const config = (build: string) => ({
    "hugo.toml": `title = "one"\n${build}\n${mounts}${stats}`,
    "config.toml": null,
  });
  const layout = (mark: string) => ({
    "layouts/index.html": `${page}<i class="${mark}"></i>{{ with resources.Get "stats/hugo_stats.json" }}<pre>{{ .Content }}</pre>{{ end }}`,
  });
  const pushed = async (files: Parameters<ReturnType<GitServer["repository"]>["push"]>[0]) => {
    git.repository("site").push(files);
    return runOnce("site");
  };

  test("builds, and the next build reads what this one wrote", async () => {
    expect(await pushed({ ...theme, ...config("[build]\nwriteStats = true"), ...layout("first-mark") })).toMatchObject({
      result: "published",
    });
    expect(await served(written)).toContain("first-mark");
    expect(await pushed(layout("second-mark"))).toMatchObject({ result: "published" });
    expect(await served("/var/www/site/index.html")).toContain("first-mark");
    expect(JSON.parse(await served(written)).htmlElements.classes).toContain("second-mark");
    // Hugo 0.115 and later have this name for it; Hugo 0.111 writes nothing.
    expect(await pushed({ ...config("[build.buildStats]\nenable = true"), ...layout("third-mark") })).toMatchObject({
      result: "published",
    });
    const { mark } = release === "trixie" ? { mark: "third-mark" } : { mark: "second-mark" };
    expect(await served(written)).toContain(mark);
  });

  test("a build begins with the repository's hugo_stats.json where it has one", async () => {
    const own = '{"htmlElements":{"tags":[],"classes":["own-mark"],"ids":[]}}\n';
    expect(
      await pushed({ ...config("[build]\nwriteStats = true"), ...layout("fourth-mark"), "hugo_stats.json": own }),
    ).toMatchObject({ result: "published" });
    expect(await served("/var/www/site/index.html")).toContain("own-mark");
    expect(await served(written)).toContain("fourth-mark");
  });

  test("fails where the file is not mounted over the one in the source, which is read-only", async () => {
    const unit = "/etc/systemd/system/pushgate-generator-site@.service";
    await host.inside(`cp -a ${unit} /root/unit && sed -i '/hugo_stats.json/d' ${unit} && systemctl daemon-reload`);
    const ran = await pushed(layout("fifth-mark"));
    await host.inside(`mv -f /root/unit ${unit} && systemctl daemon-reload`);
    expect(ran).toMatchObject({ result: "failed", reason: expect.stringMatching(/hugo_stats\.json.*read-only/) });
    const former = { "hugo_stats.json": null, "config.toml": theme["config.toml"] };
    expect(await pushed({ ...theme, ...former })).toMatchObject({ result: "published" });
  });
});

describe("the egress table", () => {
  const reach = async (account: string) => {
    const seen = await Promise.all(
      internal.urls.map(async (url) => {
        const { code, stdout } = await host.inside(`runuser -u ${account} -- curl --silent --max-time 10 ${url}`, {
          check: false,
        });
        // The table rejects and does not drop: a build would wait for an answer.
        return code === 28 ? "no answer" : stdout.includes(internalSecret);
      }),
    );
    return new Set(seen);
  };

  test("builder and Hugo reach in-house services and metadata only without the table; other accounts always do", async () => {
    expect(await reach("guest")).toEqual(new Set([true]));
    expect(await reach("pushgate-build-site")).toEqual(new Set([false]));
    expect(await reach("pushgate-generator-docs")).toEqual(new Set([false]));
    await timersEnd(host);
    await host.inside("nft delete table inet pushgate_egress");
    expect(await reach("pushgate-build-site")).toEqual(new Set([true]));
    await host.inside("systemctl restart pushgate-egress.service");
    await timersBegin(host);
    expect(await reach("pushgate-build-site")).toEqual(new Set([false]));
  });

  test("a build does not start without the table, and starts by itself when the table can be loaded again", async () => {
    await idle(host, "site");
    await host.inside("mv /etc/pushgate/egress.conf /root/ && nft delete table inet pushgate_egress");
    try {
      git.repository("site").push({ ...theme, "layouts/index.html": `${page}<i>three</i>` });
      await tick("site");
      await until("root cannot load the table", async () =>
        (await host.journal(units.build("site"))).includes("egress.conf") ? true : undefined,
      );
      expect(await served("/var/www/site/index.html")).not.toContain("three");
    } finally {
      await host.inside("mv /root/egress.conf /etc/pushgate/");
    }
    await shows("/var/www/site/index.html", "<i>three</i>");
    expect(await host.read("nft list tables")).toContain("pushgate_egress");
  });

  test("a builder that finds no table has it loaded before it builds; without its check it would build", async () => {
    const publishes = async (text: string) => {
      await idle(host, "site");
      await host.inside("nft delete table inet pushgate_egress");
      git.repository("site").push({ ...theme, "layouts/index.html": `${page}<i>${text}</i>` });
      await tick("site");
      await shows("/var/www/site/index.html", `<i>${text}</i>`);
      return (await host.read("nft list tables")).includes("pushgate_egress");
    };
    await timersEnd(host);
    expect(await publishes("checked")).toBe(true);
    await host.inside(`cp -a ${paths.builder} /root/builder.cjs`);
    await bundled("builder", join(host.root, paths.builder), anywhere);
    expect(await publishes("unchecked")).toBe(false);
    await host.inside(`mv /root/builder.cjs ${paths.builder}; systemctl restart pushgate-egress.service`);
    await timersBegin(host);
  });

  test("the table's unit can restart any number of times, and would stay failed with systemd's default limit", async () => {
    const often = "for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do systemctl restart pushgate-egress.service || exit 1; done";
    const state = () => host.read("systemctl is-active pushgate-egress.service || true");
    await host.inside(often);
    expect(await state()).toBe("active");
    await withDropIn("pushgate-egress.service", "[Unit]\nStartLimitIntervalSec=60s", async () => {
      expect((await host.inside(often, { check: false })).code).toBe(1);
      expect(await state()).toBe("failed");
    });
    await host.inside(often);
    expect(await state()).toBe("active");
    expect(await host.read("nft list tables")).toContain("pushgate_egress");
  });

  test("a first attempt of the table's unit that fails is followed by another, and would be the last without its line", async () => {
    const once = 'ExecStartPre=+/bin/sh -c "test -e /run/tried || { : >/run/tried; exit 1; }"';
    const state = () => host.read("systemctl is-active pushgate-egress.service || true");
    const restart = async () => {
      const { code } = await host.inside("rm -f /run/tried; systemctl restart pushgate-egress.service", {
        check: false,
      });
      return [code, await state()];
    };
    await withDropIn("pushgate-egress.service", once, async () => {
      expect(await restart()).toEqual([1, "activating"]);
      await until("the unit is active", async () => ((await state()) === "active" ? true : undefined));
    });
    await withDropIn("pushgate-egress.service", `${once}\nRestart=no`, async () =>
      expect(await restart()).toEqual([1, "failed"]),
    );
    await host.inside("systemctl restart pushgate-egress.service");
  });

  test("the table is loaded again after a restart of nftables.service, which flushes all rules", async () => {
    // After the first start of nftables.service the guard restores the table, and this test has no guard.
    await host.inside("systemctl start nftables.service && systemctl restart pushgate-egress.service");
    await host.inside("systemctl restart nftables.service");
    await until("the table is there", async () =>
      (await host.read("nft list tables")).includes("pushgate_egress") ? true : undefined,
    );
  });
});

test("one builder runs for a site, however often it is started; with a second unit there would be two", async () => {
  const unit = units.build("site");
  const files = `/etc/systemd/system/${units.build()} /etc/systemd/system/${unit}.d/site.conf`;
  await host.inside(`sed 's/%i/site/g' ${files} >/run/systemd/system/pushgate-second.service
systemctl daemon-reload`);
  /** The most builders of the site, started by systemd, that were seen while these units are started again and again. */
  const most = (...started: string[]) =>
    host.read(`most=0
for _ in $(seq 30); do
  systemctl start --no-block ${started.join(" ")}
  touch /var/spool/pushgate/site/again.json
  for _ in 1 2 3 4 5; do
    now=$(pgrep -c -P 1 -u ${builderUser("site")} -x node || true)
    [ "$now" -le "$most" ] || most=$now
    sleep 0.02
  done
done
echo "$most"`);
  expect(await most(unit)).toBe("1");
  // The second one, and the report of the end of one of them.
  expect(Number(await most(unit, "pushgate-second.service"))).toBeGreaterThan(1);
  // A unit that failed stays loaded without its file.
  await host.inside(`systemctl stop pushgate-second.service
rm /run/systemd/system/pushgate-second.service
systemctl daemon-reload
systemctl reset-failed pushgate-second.service 2>/dev/null || :`);
});

test("a member of the writers' group can request a build; another account cannot write a request", async () => {
  await host.inside("echo more >>/home/guest/content/_index.md");
  await host.inside("su -s /bin/sh guest -c ': >/var/spool/pushgate-publish/docs/please'");
  await shows("/srv/docs/index.html", "more");
  for (const account of ["nobody", "pushgate-generator-docs", "pushgate-build-site"]) {
    const { code } = await host.inside(`runuser -u ${account} -- touch /var/spool/pushgate-publish/docs/x`, {
      check: false,
    });
    expect(code).not.toBe(0);
  }
});

test("the timer's unit restarts a stopped path unit, whatever a member put in place of its tick", async () => {
  await host.inside(`systemctl stop ${units.buildPath("docs")}`);
  await asMember(`ln -s /etc/shadow ${memberFolder}/tick`);
  const before = await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow");
  await tick("docs");
  expect(await host.read(`systemctl is-active ${units.buildPath("docs")}`)).toBe("active");
  expect(await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow")).toBe(before);
  await until("the tick is taken", async () =>
    (await host.read(`ls -A ${memberFolder} ${rootFolder} | grep -v :`).catch(() => "")) === "" ? true : undefined,
  );
});

describe("what a member puts into the folder of requests", () => {
  const state = (property: string, unit: string) => host.read(`systemctl show -p ${property} --value ${unit}`);
  const isIdle = () => idle(host, "docs");
  const tricks = `cd ${memberFolder}
mkdir -p full/of/files empty && : >full/of/files/x && chmod 0700 full
mkfifo pipe; ln -s /var/lib/pushgate-sites/docs/work link; : >closed && chmod 0 closed
perl -e 'use IO::Socket::UNIX; IO::Socket::UNIX->new(Local => "socket", Listen => 1)'
mkdir .taken tick rollback-000001-abc 2>/dev/null
perl -e 'for (1..3000) { open my $f, ">", "many$_" }; open my $f, ">", "\xff\n\x1b"'
`;

  test("it stops neither the builder nor its timer, and is gone", async () => {
    await isIdle();
    const restarts = await state("NRestarts", units.build("docs"));
    await asMember(tricks);
    await until("all is taken", async () =>
      (await host.read(`find ${memberFolder} -mindepth 1 -maxdepth 1 ! -name '.*' | wc -l`)) === "0" ? true : undefined,
    );
    await isIdle();
    expect((await last("docs"))!.result).toBe("published");
    expect(await runOnce("docs")).toMatchObject({ result: "nothing" });
    expect(await state("NRestarts", units.build("docs"))).toBe(restarts);
    for (const unit of [units.buildPath("docs"), units.reconcileTimer("docs")])
      expect(await state("ActiveState", unit)).toBe("active");
    expect(await served("/srv/docs/index.html")).toContain("more");
  });

  test("a mount there, which the builder cannot remove, delays no rollback, and the builder recovers from it", async () => {
    await isIdle();
    // As fusermount does for a member. The builder would remove the folder before the mount.
    await host.inside(
      `systemctl stop ${units.buildPath("docs")} ${units.build("docs")} && mkdir ${memberFolder}/mine && mount -t tmpfs tmpfs ${memberFolder}/mine`,
    );
    await tick("docs");
    await until("the builder reports it", async () =>
      (await last("docs"))?.reason === `${memberFolder}/mine cannot be removed (EBUSY). Remove it.` ? true : undefined,
    );
    const current = (await host.read("readlink /var/lib/pushgate-sites/docs/current")).replace("releases/", "");
    await host.inside(`: >/var/spool/pushgate-root/.new && mv -T /var/spool/pushgate-root/.new ${rootFolder}/rollback-${current}
systemctl restart ${units.build("docs")}`);
    await until("the rollback is done", async () =>
      (await host.journal(units.build("docs"))).includes('"result":"rolled back"') ? true : undefined,
    );
    await host.inside(`umount ${memberFolder}/mine`);
    await isIdle();
    expect(await host.read(`find ${memberFolder} -mindepth 1 -maxdepth 1 ! -name '.*' | wc -l`)).toBe("0");
  });

  test("is never a rollback, and would be one if root's folder were open", async () => {
    const releases = (await host.read("ls /var/lib/pushgate-sites/docs/releases")).split("\n").sort();
    const request = `rollback-${releases.at(-2)}`;
    await asMember(`: >${memberFolder}/${request}`);
    await until("the request is taken", async () =>
      (await asMember(`test -e ${memberFolder}/${request}`)).code === 1 ? true : undefined,
    );
    await isIdle();
    expect((await last("docs"))!.result).toBe("published");
    await host.inside(`chmod 0777 ${rootFolder}`);
    const oldest = (await host.read("ls /var/lib/pushgate-sites/docs/releases")).split("\n").sort().at(-2);
    await asMember(`: >${rootFolder}/rollback-${oldest}`);
    await until("the rollback is done", async () =>
      (await last("docs"))!.result === "rolled back" ? true : undefined,
    );
    await host.inside(`chmod 0770 ${rootFolder}`);
    await asMember(`: >${memberFolder}/please`);
    await until("the site is built again", async () =>
      (await last("docs"))!.result === "published" ? true : undefined,
    );
  });
});

describe("the probe reports each manual change, and an apply repairs it in place", () => {
  const rounds: Record<string, { change: string; says: Record<string, string> }> = {
    "units, folders, tables": {
      change: `echo '# by hand' >>/etc/systemd/system/${units.build()}
mkdir -p /etc/systemd/system/pushgate-generator-site@.service.d
printf '[Service]\\nRootDirectory=\\n' >/etc/systemd/system/pushgate-generator-site@.service.d/open.conf
mkdir -p /etc/systemd/system/${units.build("docs")}.d
printf '[Service]\\nEnvironment=BY_HAND=1\\n' >/etc/systemd/system/${units.build("docs")}.d/open.conf
systemctl daemon-reload
systemctl --quiet disable --now ${units.site("docs")}
systemctl stop ${units.buildPath("site")}
chmod 0777 /var/spool/pushgate-publish/site /var/spool/pushgate-root/site
nft insert rule inet pushgate_egress builder accept
echo x >>/usr/local/lib/pushgate/builder.cjs`,
      says: {
        "builder-program": "/usr/local/lib/pushgate/builder.cjs is: differs",
        egress: 'table inet pushgate_egress: declared is "as declared", the host reports "added: accept (differs)"',
        builder: "- # by hand",
        site: `${units.site("docs")} is: declared is "enabled active", the host reports "disabled inactive"`,
      },
    },
    "Hugo's socket, known hosts and the resolver": {
      change: `systemctl stop ${units.generatorSocket("docs")}
rm /etc/pushgate/builder/docs.known_hosts
echo 'nameserver 192.0.2.1' >>/etc/resolv.conf`,
      says: {
        egress: "missing: ip daddr { ",
        builder: "/etc/pushgate/builder/docs.known_hosts is missing",
      },
    },
  };

  test.each(Object.entries(rounds))("%s", async (_, { change, says }) => {
    await host.inside(change);
    const found = await direct.probe(settings, rebuildLayers);
    for (const [layer, words] of Object.entries(says)) expect(found[layer]!.drift.join("\n"), layer).toContain(words);
    const ran = await direct.apply(settings, rebuildLayers);
    expect(ran.code, ran.stderr).toBe(0);
    for (const [name, verdict] of Object.entries(await direct.probe(settings, rebuildLayers)))
      expect(verdict, name).toMatchObject({ inSync: true });
  });
});

test("an apply without a hook's site makes its web root a folder again, and the other site is unchanged", async () => {
  const [site, docs] = hooks;
  const { site: _, ...plain } = docs;
  const less = settingsOf(host, [site, plain]);
  const page = await served("/srv/docs/index.html");
  const ran = await direct.apply(less, [...beneath, ...rebuildLayers], { site: secrets.site!, docs: secrets.docs! });
  expect(ran.code, ran.stderr).toBe(0);
  expect(await host.read("stat -c '%F %U:%G %a' /srv/docs")).toBe("directory root:root 755");
  expect(await served("/srv/docs/index.html")).toBe(page);
  expect(await host.read("ls /var/lib/pushgate-sites /etc/pushgate/credentials")).not.toMatch(
    /docs.deploy-key|^docs$.*^docs$/m,
  );
  expect(await host.read("getent passwd | grep -oE '^pushgate-(build|generator)[^:]*' | sort")).toBe(
    `${builderUser("site")}\n${generatorUser("site")}`,
  );
  for (const [name, verdict] of Object.entries(await direct.probe(less, rebuildLayers)))
    expect(verdict, name).toMatchObject({ inSync: true });
});

test("a removal leaves no unit, account or table, and the site is a folder with the served files", async () => {
  const none = settingsOf(
    host,
    hooks.map(({ site: _, ...plain }) => plain),
  );
  const page = await served("/var/www/site/index.html");
  const ran = await direct.apply(none, [...rebuildLayers].reverse());
  expect(ran.code, ran.stderr).toBe(0);
  expect(await served("/var/www/site/index.html")).toBe(page);
  expect(await host.read("find /var/www/site -maxdepth 0 -type d")).toBe("/var/www/site");
  expect(await host.read("getent passwd | grep -E '^pushgate-(build|generator)' || :")).toBe("");
  expect(await host.read("nft list tables")).not.toContain("egress");
  expect(
    await host.read(
      "systemctl list-units --all --plain --no-legend 'pushgate-build*' 'pushgate-generator*' 'pushgate-reconcile*' 'pushgate-egress*'",
    ),
  ).toBe("");
  const left = await host.read(
    "find / -xdev \\( -path /proc -o -path /var/log -o -path /var/lib/pushgate/stamps \\) -prune -o \\( -name '*pushgate-*' -o -path '*/pushgate/*' \\) -print | sort",
  );
  expect(left).not.toMatch(/builder|egress|generator|sites|publish/);
});
