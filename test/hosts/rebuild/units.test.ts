/**
 * The builder's layers on a host, with the real builder, hugo, and git over ssh and https: each sandbox, with its
 * protections removed to prove them; the adoption of a web root; and the report of manual changes.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Settings } from "../../../infra/config/settings.ts";
import { units } from "../../../infra/host/paths.ts";
import type { HookSecrets } from "../../../infra/host/secrets/secrets.ts";
import { beneath, DirectApply, rebuildLayers, settingsOf } from "../apply-directly.ts";
import { type GitServer, startGitServer } from "../lab/git-server.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { type Internal, internalSecret, startInternal } from "../lab/internal-services.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { timersBegin, timersEnd } from "./status.ts";

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
let secrets: HookSecrets;
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
/** Runs `work` while no build runs, with the folder that hugo's unit binds. */
async function withoutBuilds<T>(hook: string, work: () => Promise<T>): Promise<T> {
  await host.inside(`systemctl stop ${units.buildPath(hook)} ${units.build(hook)}
cd /var/lib/pushgate-sites/${hook}/work && rm -rf out && install -d -m 0777 -o pushgate-builder out`);
  try {
    return await work();
  } finally {
    await host.inside(`systemctl start ${units.buildPath(hook)}`);
  }
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
/** Starts hugo's unit by its socket, as the builder does; returns the lines of its output and how it ended. */
const startHugo = (hook: string) =>
  host
    .inside(
      `runuser -u pushgate-builder -- perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => "/run/pushgate-hugo/${hook}.sock") or die $!; print while <$s>'`,
    )
    .then(({ stdout }) => stdout.trim().split("\n"));

beforeAll(async () => {
  [host, git, internal] = await Promise.all([
    bootHost({ name: "rebuild", release, variant: "packages" }),
    startGitServer(),
    startInternal(),
  ]);
  await git.introduce(host);
  await host.inside(`set -e
groupadd writers
mkdir -p /srv/content/site /home/guest/content /home/guest/www/uploads /home/guest/www/css
chmod 0700 /home/guest
printf -- '---\\ntitle: home\\n---\\nhello\\n' | tee /srv/content/site/_index.md >/home/guest/content/_index.md
chgrp -R writers /home/guest/content && chmod -R g=rX,o= /home/guest/content
echo former >/home/guest/www/index.html; echo former >/home/guest/www/css/site.css
echo kept >/home/guest/www/uploads/photo; echo left >/home/guest/www/left.html
chown -R www-data:www-data /home/guest/www/uploads; chmod 0700 /home/guest/www/uploads; chown guest:writers /home/guest/www; chmod 2775 /home/guest/www`);
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
        webRoot: "/home/guest/www",
        content: "/home/guest/content",
        keep: ["uploads"],
        writers: "writers",
        knownHosts: [git.ssh.knownHosts],
      },
    },
  ];
  settings = settingsOf(host, hooks);
  secrets = { site: ["s".repeat(40)], docs: ["d".repeat(40)], "key:docs": [git.ssh.deployKey] };
  direct = new DirectApply(host);
  const ran = await direct.apply(settings, [...beneath, "builder-program", "egress", "builder"], secrets);
  expect(ran.code, ran.stderr).toBe(0);
});

afterAll(async () => {
  await git?.close();
  await internal?.close();
  await host?.kill();
});

test("the builder owns the folders for taken files, which exist before any account can request a build", async () => {
  const folders = ["pushgate", "pushgate-publish"].flatMap((kind) =>
    ["site", "docs"].map((hook) => `/var/spool/${kind}/${hook}/.taken`),
  );
  const rows = (await host.read(`stat -c '%n %a %U:%G' ${folders.join(" ")}`)).split("\n");
  expect(rows).toEqual(folders.map((folder) => `${folder} 700 pushgate-builder:pushgate-builder`));
  await host.inside("usermod -aG writers guest");
  const requests = "/var/spool/pushgate-publish/docs";
  for (const change of ["rmdir", `mv -T ${requests}/.taken`, "chmod 0777"]) {
    const last = change.startsWith("mv") ? "elsewhere" : ".taken";
    const { code, stderr } = await host.inside(`runuser -u guest -- ${change} ${requests}/${last}`, { check: false });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("Operation not permitted") });
  }
});

test("the site layer fails, lists the files that no build makes, and changes nothing", async () => {
  const before = await host.snapshot("/home/guest");
  const refused = await direct.apply(settings, ["site"]);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(
    "/home/guest/www holds 1 files that the build does not make and site.keep does not name:",
  );
  expect(refused.stderr).toContain("site:   left.html");
  expect(await host.snapshot("/home/guest")).toEqual(before);
  // The other hook, over https and without a former folder, already has its link.
  expect(await host.read("readlink /var/www/site")).toBe("/var/lib/pushgate-sites/site/current");
});

test("the site layer adopts the folder without that file, the builder publishes, and kept files keep their owner", async () => {
  await host.inside("rm /home/guest/www/left.html");
  const ran = await direct.apply(settings, ["site"]);
  expect(ran.code, ran.stderr).toBe(0);
  await shows("/home/guest/www/index.html", "hello");
  await shows("/var/www/site/index.html", "hello");
  expect(await served("/var/lib/pushgate-sites/docs/releases/000001-adopted/index.html")).toBe("former\n");
  expect(await served("/home/guest/www/uploads/photo")).toBe("kept\n");
  expect(await host.read("stat -c %U:%G /home/guest/www/uploads/")).toBe("www-data:www-data");
  expect(git.ssh.commands().every((command) => command.startsWith("git-upload-pack"))).toBe(true);
});

test("the preview right after is clean", async () => {
  for (const [name, verdict] of Object.entries(await direct.probe(settings, rebuildLayers)))
    expect(verdict, name).toMatchObject({ inSync: true, drift: [] });
});

test("systemd rates the exposure of the builder as at most 1.1 and of hugo as at most 0.3", async () => {
  const of = async (unit: string) =>
    Number(
      /Overall exposure level for \S+ ([\d.]+)/.exec(
        await host.read(`systemd-analyze security --no-pager '${unit}'`),
      )?.[1],
    );
  expect(await of(units.build("docs"))).toBeLessThanOrEqual(1.1);
  expect(await of("pushgate-hugo-site@0.service")).toBeLessThanOrEqual(0.3);
});

describe("the sandbox of hugo's unit", () => {
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
      expect((await startHugo("site")).at(-1)).toMatch(/^pushgate-hugo result=/);
      expect(await served(stolen)).toBe("");
      await withDropIn("pushgate-hugo-site@.service", "RootDirectory=\nProtectHome=no\nProtectSystem=no", () =>
        startHugo("site"),
      );
      expect(await served(stolen)).toContain("pam_unix");
    });
    await host.inside("rmdir /source /content /out /cache");
    git.repository("site").push(theme);
    expect(await runOnce("site")).toMatchObject({ result: "published" });
  });

  test("hugo's unit reports how it ended: a time limit, a signal, an exit code, too many tasks, too much memory", async () => {
    const ended = (exec: string, lines = "") =>
      withDropIn("pushgate-hugo-site@.service", `ExecStart=\nExecStart=${exec}\n${lines}`, () => startHugo("site"));
    const many =
      "#!/usr/bin/perl\nfor (1..200) { my $p = fork; defined $p or die qq(no more: $!\\n); sleep 2, exit unless $p }\n";
    await host.writeFile("/usr/local/lib/many", many, "0755");
    await host.writeFile("/usr/local/lib/much", '#!/usr/bin/perl\nmy @a; push @a, "x" x 1e6 while 1\n', "0755");
    const how = "pushgate-hugo result=";
    await withoutBuilds("site", async () => {
      expect((await ended("/usr/bin/sleep 60", "RuntimeMaxSec=1")).at(-1)).toBe(
        `${how}timeout code=killed status=TERM`,
      );
      expect((await ended("/bin/sh -c 'kill -9 $$$$'")).at(-1)).toBe(`${how}signal code=killed status=KILL`);
      expect((await ended("/bin/sh -c 'exit 3'")).at(-1)).toBe(`${how}exit-code code=exited status=3`);
      expect((await ended("/usr/local/lib/many")).join("\n")).toContain("no more: Resource temporarily unavailable");
      // The control group ends it if the kernel counts memory; otherwise the process's own limit does.
      expect((await ended("/usr/local/lib/much")).join("\n")).toMatch(/Out of memory|result=oom-kill/i);
    });
    await host.inside("rm /usr/local/lib/many /usr/local/lib/much");
  });

  test("hugo's unit has no network, no account database and no home", async () => {
    const probe = "/bin/sh -c 'cat /etc/passwd; ls /home /var/lib /run/credentials; cat /proc/net/dev'";
    const said = await withoutBuilds("site", () =>
      withDropIn("pushgate-hugo-site@.service", `ExecStart=\nExecStart=-${probe}`, () => startHugo("site")),
    );
    expect(said.join("\n")).toMatch(/passwd: No such file[\s\S]*\/home[\s\S]*No such file/);
    expect(said.join("\n")).not.toContain("host0");
  });
});

describe("the egress table", () => {
  const reach = async (account: string) => {
    const seen = await Promise.all(
      internal.urls.map(async (url) => {
        const { stdout } = await host.inside(`runuser -u ${account} -- curl --silent --max-time 3 ${url}`, {
          check: false,
        });
        return stdout.includes(internalSecret);
      }),
    );
    return new Set(seen);
  };

  test("builder and hugo reach in-house services and metadata only without the table; other accounts always do", async () => {
    expect(await reach("guest")).toEqual(new Set([true]));
    const began = performance.now();
    expect(await reach("pushgate-builder")).toEqual(new Set([false]));
    expect(await reach("pushgate-hugo")).toEqual(new Set([false]));
    expect(performance.now() - began).toBeLessThan(5_000);
    await timersEnd(host);
    await host.inside("nft delete table inet pushgate_egress");
    expect(await reach("pushgate-builder")).toEqual(new Set([true]));
    await host.inside("systemctl restart pushgate-egress.service");
    await timersBegin(host);
    expect(await reach("pushgate-builder")).toEqual(new Set([false]));
  });

  test("a build does not start without the table, and starts by itself when the table can be loaded again", async () => {
    await until("no build runs", async () =>
      (await host.read(`systemctl show -p ActiveState --value ${units.build("site")}`)) === "inactive"
        ? true
        : undefined,
    );
    await host.inside("mv /etc/pushgate/egress.conf /root/ && nft delete table inet pushgate_egress");
    try {
      git.repository("site").push({ ...theme, "layouts/index.html": `${page}<i>three</i>` });
      await tick("site");
      await until("the build waits, because it cannot start", async () =>
        (await host.read(`systemctl show -p SubState --value ${units.build("site")}`)) === "auto-restart"
          ? true
          : undefined,
      );
      expect(await host.journal(units.build("site"))).toContain("egress.conf");
      expect(await served("/var/www/site/index.html")).not.toContain("three");
    } finally {
      await host.inside("mv /root/egress.conf /etc/pushgate/");
    }
    await shows("/var/www/site/index.html", "<i>three</i>");
    expect(await host.read("nft list tables")).toContain("pushgate_egress");
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

  test("the table is loaded again after a restart of nftables.service, which flushes all rules", async () => {
    // After the first start of nftables.service the guard restores the table, and this test has no guard.
    await host.inside("systemctl start nftables.service && systemctl restart pushgate-egress.service");
    await host.inside("systemctl restart nftables.service");
    await until("the table is there", async () =>
      (await host.read("nft list tables")).includes("pushgate_egress") ? true : undefined,
    );
  });
});

test("a member of the writers' group can request a build; another account cannot write a request", async () => {
  await host.inside("echo more >>/home/guest/content/_index.md");
  await host.inside("su -s /bin/sh guest -c ': >/var/spool/pushgate-publish/docs/please'");
  await shows("/home/guest/www/index.html", "more");
  for (const account of ["nobody", "pushgate-hugo"]) {
    const { code } = await host.inside(`runuser -u ${account} -- touch /var/spool/pushgate-publish/docs/x`, {
      check: false,
    });
    expect(code).not.toBe(0);
  }
});

test("the timer's unit restarts a stopped path unit, and replaces a link that a member made in place of its tick", async () => {
  await host.inside(`systemctl stop ${units.buildPath("docs")}
su -s /bin/sh guest -c 'ln -s /etc/shadow /var/spool/pushgate-publish/docs/tick'`);
  const before = await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow");
  await tick("docs");
  expect(await host.read(`systemctl is-active ${units.buildPath("docs")}`)).toBe("active");
  expect(await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow")).toBe(before);
  await until("the tick is taken", async () =>
    (await host.read("ls -A /var/spool/pushgate-publish/docs")) === ".taken" ? true : undefined,
  );
});

describe("the probe reports each manual change, and an apply repairs it in place", () => {
  const rounds: Record<string, { change: string; says: Record<string, string> }> = {
    "units, folders, tables": {
      change: `echo '# by hand' >>/etc/systemd/system/${units.build("site")}
mkdir -p /etc/systemd/system/pushgate-hugo-site@.service.d
printf '[Service]\\nRootDirectory=\\n' >/etc/systemd/system/pushgate-hugo-site@.service.d/open.conf
systemctl daemon-reload
systemctl --quiet disable --now ${units.reconcileTimer("docs")}
systemctl stop ${units.buildPath("site")}
chmod 0777 /var/spool/pushgate-publish/site
nft insert rule inet pushgate_egress builder accept
echo x >>/usr/local/lib/pushgate/builder.cjs`,
      says: {
        "builder-program": "/usr/local/lib/pushgate/builder.cjs is: differs",
        egress: 'table inet pushgate_egress: declared is "as declared", the host reports "added: accept (differs)"',
        builder: "- # by hand",
        site: `${units.buildPath("site")} is: declared is "enabled active", the host reports "enabled inactive"`,
      },
    },
    "a hugo socket, known hosts and the resolver": {
      change: `systemctl --quiet disable --now ${units.hugoSocket("docs")}
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
  const page = await served("/home/guest/www/index.html");
  const ran = await direct.apply(less, [...beneath, ...rebuildLayers], { site: secrets.site!, docs: secrets.docs! });
  expect(ran.code, ran.stderr).toBe(0);
  expect(await host.read("stat -c '%F %U:%G %a' /home/guest/www")).toBe("directory guest:writers 2775");
  expect(await served("/home/guest/www/index.html")).toBe(page);
  expect(await served("/home/guest/www/uploads/photo")).toBe("kept\n");
  expect(await host.read("stat -c %U:%G /home/guest/www/uploads")).toBe("www-data:www-data");
  expect(await host.read("ls /var/lib/pushgate-sites /etc/pushgate/credentials")).not.toMatch(
    /docs-deploy-key|^docs$.*^docs$/m,
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
  expect(await host.read("getent passwd pushgate-builder pushgate-hugo || :")).toBe("");
  expect(await host.read("nft list tables")).not.toContain("egress");
  expect(
    await host.read(
      "systemctl list-units --all --plain --no-legend 'pushgate-build*' 'pushgate-hugo*' 'pushgate-reconcile*' 'pushgate-egress*'",
    ),
  ).toBe("");
  const left = await host.read(
    "find / -xdev \\( -path /proc -o -path /var/log -o -path /var/lib/pushgate/stamps \\) -prune -o \\( -name '*pushgate-*' -o -path '*/pushgate/*' \\) -print | sort",
  );
  expect(left).not.toMatch(/builder|egress|hugo|sites|publish/);
});
