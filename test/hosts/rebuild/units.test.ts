/**
 * The builder's units on a host, with the real builder, Hugo, git over SSH and HTTPS: each sandbox, with its protections
 * removed to prove them. No timer runs, because its build would begin in the middle of a test.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { startProgram } from "../../../infra/host/builder/generator.ts";
import { builderUser, generatorUser, paths, runFolders, units } from "../../../infra/host/paths.ts";
import { placesOf as placesIn } from "../../../service/builder/places.ts";
import { exampleHost, rebuilt } from "../../fixtures.ts";
import { unitText, values } from "../../infra/host/namespace.ts";
import { leaveLargest } from "../../service/builder/largest.ts";
import { startInternal } from "../lab/internal-services.ts";
import { until } from "../lab/process.ts";
import { forgeEnd, requestRollback } from "./attacks.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, type HookName, placesOf, siteFiles } from "./site.ts";
import { idle, runOf, timersEnd } from "./status.ts";
import { builderPaths, inPlaceOfHugo, type Rebuild, shows, withDropIn } from "./world.ts";

const rebuild = await deployedRebuild("units");
const { host } = rebuild;
const internal = await startInternal();

beforeAll(async () => {
  await timersEnd(host);
});

afterAll(() => internal.close());

const served = (path: string) => host.inside(`cat ${path}`, { check: false }).then(({ stdout }) => stdout);
const isActive = (unit: string) => host.read(`systemctl is-active ${unit} || true`);
const tick = (hook: HookName) => host.inside(`systemctl start ${units.reconcile(hook)}`);
const pushed = (files: Parameters<Rebuild["push"]>[0]) => runOf(host, () => rebuild.push(files));

/** Runs `work` while no build runs, with the folder and the file that Hugo's unit binds. */
async function withoutBuilds<T>(hook: HookName, work: () => Promise<T>): Promise<T> {
  await idle(host, hook);
  await host.inside(`systemctl stop ${builderPaths(hook)} ${units.build(hook)}
cd ${placesOf(hook).site}/work && rm -rf out && install -d -m 0777 -o ${builderUser(hook)} out`);
  try {
    return await work();
  } finally {
    await host.inside(`systemctl start ${builderPaths(hook)}`);
  }
}

/** Connects to the socket of a unit, as the builder does, when a former unit is gone; returns what it prints. */
async function connect(hook: HookName, kind: "generator" | "fetcher" = "generator"): Promise<string> {
  const gone = async () =>
    (await host.read(`systemctl list-units --no-legend 'pushgate-${kind}-${hook}@*'`)) === "" || undefined;
  await until(`the ${kind}'s unit is gone`, gone);
  const { socket: generator, fetcher } = runFolders(hook);
  const client = `my $s = IO::Socket::UNIX->new(Peer => "${{ generator, fetcher }[kind]}") or die $!; print while <$s>`;
  const { stdout } = await host.inside(`runuser -u ${builderUser(hook)} -- perl -MIO::Socket::UNIX -e '${client}'`);
  await until(`the ${kind}'s unit is gone`, gone);
  return stdout;
}

/** Starts Hugo's unit with these lines; returns its output, and how root reports that this build ended. */
const startHugo = (hook: HookName, lines: string): Promise<{ said: string; end: string }> =>
  withDropIn(host, `pushgate-generator-${hook}@.service`, lines, async () => {
    const [first = "", ...rest] = (await connect(hook)).trim().split("\n");
    const [, id] = /^pushgate-generator build=([0-9a-f]{32})$/.exec(first)!;
    const [, end = ""] = (await served(`${runFolders(hook).result}/last`)).trim().split(`${id} `);
    return { said: rest.join("\n"), end };
  });
const instead = (command: string) => `ExecStart=\nExecStart=${command}`;

/** Places of the distribution and of systemd. */
const system = ["/bin", "/dev", "/etc/localtime", "/lib", "/lib64", "/proc", "/usr"];
/** Shell: names each of these places that is there, and each file outside of them. systemd's sockets for output are in /run. */
const walk = (places: readonly string[]) =>
  `find / -path /run/systemd -prune -o -path /run/host -prune -o ${[...system, ...places].map((path) => `-path ${path} -print -prune -o`).join(" ")} ! -type d -print 2>/dev/null
find /usr/local /dev/shm /dev/mqueue ! -type d 2>/dev/null`;

describe("Hugo's unit", () => {
  test("a site that mounts a folder of the host publishes nothing of it, and would without the unit's own root", async () => {
    const mount = (source: string, target: string) => `[[module.mounts]]\nsource = "${source}"\ntarget = "${target}"\n`;
    await host.writeFile("/usr/local/etc/secret", "of the operator");
    const mounts =
      mount("/etc/pam.d", "static/stolen") +
      mount("/usr/local/etc", "static/local") +
      mount("layouts", "layouts") +
      mount("/content", "content");
    await pushed({ "hugo.toml": siteFiles()["hugo.toml"] + mounts });
    expect(await host.read(`find ${placesOf("site").site}/releases -name common-auth -o -name secret`)).toBe("");
    await withoutBuilds("site", async () => {
      const stolen = () => served(`${placesOf("site").site}/work/out/stolen/common-auth`);
      expect((await startHugo("site", "")).end).toMatch(/^(success|exit-code) exited /);
      expect(await stolen()).toBe("");
      await startHugo("site", "TemporaryFileSystem=");
      expect(await served(`${placesOf("site").site}/work/out/local/secret`)).toBe("of the operator");
      const note = `BindReadOnlyPaths=${runFolders("site").generatorRoot}/content-of-site:/content-of-site`;
      await startHugo("site", `RootDirectory=\nProtectHome=no\nProtectSystem=no\n${note}`);
      expect(await stolen()).toContain("pam_unix");
    });
    await host.inside("rmdir /source /content /out /cache && rm /content-of-site");
    expect(await pushed(siteFiles())).toMatchObject({ result: "published" });
  });

  test("root reports how a build ended: a time limit, a signal, an exit code", async () => {
    const endOf = async (exec: string, lines = "") => (await startHugo("docs", `${inPlaceOfHugo(exec)}\n${lines}`)).end;
    await withoutBuilds("docs", async () => {
      expect(await endOf("/usr/bin/sleep 60", "RuntimeMaxSec=1")).toBe("timeout killed TERM");
      expect(await endOf("/bin/sh -c 'kill -9 $$$$'")).toBe("signal killed KILL");
      expect(await endOf("/bin/sh -c 'exit 3'")).toBe("exit-code exited 3");
    });
  });

  test("the list of what Hugo mounts is whole where a build ends before it, and would not be at systemd's SIGTERM", async () => {
    const slow = "/usr/local/bin/slow-list";
    await host.writeFile(slow, '#!/bin/sh\n[ "$1" != config ] || { sleep 1; echo listed; }\n', "0755");
    // Of a site whose content is in its repository: the unit's shell becomes Hugo.
    const { files } = builderLayer(rebuilt, exampleHost);
    const [command = ""] = values(unitText(files, units.generator("site")), "ExecStart");
    const open = "/usr/local/bin/open-generator";
    await host.inside(`sed "/^ *trap '' TERM/d" ${startProgram} >${open}; chmod 755 ${open}`);
    const lines = `BindReadOnlyPaths=${slow} ${open}\n${instead(command.replace("/usr/bin/hugo", slow))}`;
    const listed = async (lines: string) => {
      const list = `${placesOf("site").site}/work/cache/mounts`;
      await host.inside(`rm -f ${list}`);
      await startHugo("site", lines);
      return served(list);
    };
    await withoutBuilds("site", async () => {
      expect(await listed(lines)).toBe("listed\n");
      expect(await listed(lines.replace(startProgram, open))).toBe("");
    });
  });

  test("a build has ended when none of its processes is left, however it detached itself, and not so where they may stay", async () => {
    const unit = "pushgate-generator-docs@.service";
    expect(await forgeEnd(rebuild)).toBeUndefined();
    // Whatever a process ignores, it is killed.
    expect(await withDropIn(host, unit, "TimeoutStopSec=1s", () => forgeEnd(rebuild))).toBeUndefined();
    const won = "the build was published while its process runs";
    expect(await withDropIn(host, unit, "KillMode=process", () => forgeEnd(rebuild))).toBe(won);
    await host.inside(`pkill -KILL -u ${generatorUser("docs")} || :`);
  });

  test("a build cannot write how it ended, and could if the folder were its account's", async () => {
    const folder = runFolders("site").result;
    const forged = async () => {
      const forge = `${inPlaceOfHugo("/bin/sh -c 'echo forged >/result/last'")}\nExecStopPost=`;
      await withDropIn(host, "pushgate-generator-site@.service", forge, () => connect("site"));
      return (await served(`${folder}/last`)) === "forged\n";
    };
    await withoutBuilds("site", async () => {
      expect(await forged()).toBe(false);
      await host.inside(`chown -R ${generatorUser("site")} ${folder}`);
      expect(await forged()).toBe(true);
      await host.inside(`chown -R root ${folder}`);
    });
  });

  test("a build ends no process of another site's build, and would if the sites shared an account", async () => {
    const killAll = inPlaceOfHugo("/bin/sh -c 'kill -9 -1'");
    await withoutBuilds("site", async () => {
      await host.inside(`systemd-run --quiet --unit=victim -p User=${generatorUser("docs")} sleep 300`);
      await startHugo("site", killAll);
      expect(await isActive("victim")).toBe("active");
      await startHugo("site", `${killAll}\nUser=${generatorUser("docs")}`);
      await until("systemd has noticed", async () => (await isActive("victim")) !== "active" || undefined);
    });
  });

  test("sees these files and no network, and more files without one of two lines", async () => {
    const own = ["/cache", "/content", "/content-of-site", "/etc/gitconfig", "/out", "/result", "/source"];
    const network = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or print $!'";
    await host.writeFile("/usr/lib/look", `#!/bin/sh\n${walk(own)}\n${network}\n`, "0755");
    const seen = async (lines = "") => (await startHugo("site", `${inPlaceOfHugo("/usr/lib/look")}\n${lines}`)).said;
    const none = "Address family not supported by protocol";
    await withoutBuilds("site", async () => {
      expect((await seen()).split("\n").sort()).toEqual([...system, ...own, startProgram, none].sort());
      expect(await seen("TemporaryFileSystem=")).toContain("/usr/local/etc/secret");
      await host.inside("touch /dev/shm/secret");
      expect(await seen("InaccessiblePaths=")).toMatch(/^\/sys\/[\s\S]*^\/dev\/shm\/secret$/m);
    });
  });

  test("a build writes hugo_stats.json over the source, which is read-only", async () => {
    const writes = { "hugo.toml": `${siteFiles()["hugo.toml"]}[build]\nwriteStats = true\n` };
    const layout = { "layouts/index.html": `${front("stats")}<i class="mark"></i>` };
    expect(await pushed({ ...writes, ...layout })).toMatchObject({ result: "published" });
    expect(await served(`${placesOf("site").site}/work/stats.json`)).toContain("mark");
    expect(await pushed(siteFiles())).toMatchObject({ result: "published" });
  });
});

test("the fetcher's unit sees these files and no network, and root reports its end; more without a line", async () => {
  const own = ["/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/fetched", "/result", "/wanted"];
  const program = [paths.fetcher, paths.relay, `${paths.builderSettings}/docs.json`];
  const reach = `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new("${internal.metadata}:443") ? 1 : $@'`;
  await host.writeFile("/usr/lib/look", `#!/bin/sh\n${walk(own)}\n${reach}\n`, "0755");
  const seen = (lines = "") =>
    withDropIn(host, "pushgate-fetcher-docs@.service", `${instead("/usr/lib/look")}\n${lines}`, () =>
      connect("docs", "fetcher"),
    );
  await withoutBuilds("docs", async () => {
    const work = `${placesOf("docs").site}/work`;
    await host.inside(`cd ${work} && mkdir -p wanted && install -d -m 0777 fetched`);
    const none = "IO::Socket::INET: Address family not supported by protocol";
    expect((await seen()).trim().split("\n").sort()).toEqual([...system, ...own, ...program, none].sort());
    expect(await served(`${runFolders("docs").result}/fetcher`)).toMatch(/^[0-9a-f]{32} success exited 0$/m);
    expect(await seen("RootDirectory=\nTemporaryFileSystem=")).toContain("/usr/local/etc/secret");
    const network = "PrivateNetwork=no\nRestrictAddressFamilies=\nIPAddressDeny=";
    expect(await seen(network)).toMatch(/Connection refused$/);
    await host.inside("nft delete table inet pushgate_egress");
    expect(await seen(network)).toMatch(/^1$/m);
    await host.inside(`systemctl restart ${units.egress}; rm -rf ${work}/wanted ${work}/fetched`);
  });
});

describe("the builder's unit", () => {
  /** What a process in the builder's unit of docs, whose repository is reached over SSH, prints. */
  async function inBuilder(script: string, lines = ""): Promise<string> {
    const unit = units.build("docs");
    const seen = `${placesOf("docs").site}/seen`;
    await host.writeFile("/usr/lib/look", `#!/bin/sh\n${script}\n`, "0755");
    const look = `ExecStart=\nExecStart=/bin/sh -c '/usr/lib/look >${seen} 2>&1'\nRestart=no\n${lines}`;
    return withoutBuilds("docs", () =>
      withDropIn(host, unit, look, async () => {
        await host.inside(`systemctl start ${unit}`, { check: false });
        await until("it ended", async () => (await isActive(unit)) !== "active" || undefined);
        const text = await served(seen);
        await host.inside(`rm -f ${seen}; systemctl reset-failed ${unit} || :`);
        return text;
      }),
    );
  }
  const everything = `RootDirectory=\nTemporaryFileSystem=\nBindPaths=\nBindReadOnlyPaths=\nReadWritePaths=${placesOf("docs").site}`;

  test("sees these files, and those of the host and of other sites without its own root", async () => {
    const { site, spool, requests, rootRequests } = placesOf("docs");
    const etc = ["group", "hosts", "nsswitch.conf", "passwd", "resolv.conf", "ssl/certs", "ssl/openssl.cnf"];
    const settings = ["docs.json", "docs.known_hosts"].map((name) => `${paths.builderSettings}/${name}`);
    const own = [site, spool, requests, rootRequests, runFolders("docs").own, ...settings];
    const places = [...etc.map((name) => `/etc/${name}`), ...own];
    const seen = async (lines?: string) => (await inBuilder(walk(places), lines)).trim().split("\n").sort();
    const programs = [paths.builder, `${paths.lib}/egress`];
    expect(await seen()).toEqual([...system, ...places, ...programs].sort());
    expect(await seen(everything)).toEqual(
      expect.arrayContaining(["/etc/shadow", `${placesOf("site").site}/status.json`, "/usr/local/etc/secret"]),
    );
  });

  test("cannot read another site's clone, and could if the sites shared an account", async () => {
    const look = `cat ${placesOf("site").site}/work/clone/hugo.toml`;
    expect(await inBuilder(look, everything)).toContain("Permission denied");
    const shared = `${everything} ${placesOf("site").site}`;
    await host.inside(`chmod 0777 ${placesOf("docs").site}`);
    expect(await inBuilder(look, `${shared}\nUser=${builderUser("site")}`)).toContain("title = ");
    await host.inside(`chmod 0755 ${placesOf("docs").site}`);
  });

  test("has no deploy key while it fetches, only an agent that signs; it would with a credential", async () => {
    const key = rebuild.git.ssh.deployKey.split("\n")[2]!.slice(0, 40);
    const look = `for file in /run/credentials/*/* /proc/[0-9]*/root/run/credentials/*/* /proc/[0-9]*/environ; do grep -F '${key}' "$file"; done
find / -name 'deploy-key*' -not -path '/proc/*'
for _ in $(seq 50); do [ -S ${runFolders("docs").agent}/socket ] || sleep 0.2; done
SSH_AUTH_SOCK=${runFolders("docs").agent}/socket ssh-add -l`;
    const said = await inBuilder(look);
    expect(said).toMatch(/^256 SHA256:/m);
    expect(said).not.toContain(key);
    expect(said).not.toContain("/deploy-key");
    const given = "LoadCredentialEncrypted=deploy-key:/etc/pushgate/credentials/docs.deploy-key";
    expect(await inBuilder(look, given)).toContain(key);
  });
});

describe("the egress table", () => {
  const tables = () => host.read("nft list tables");

  test("a build does not start without the table, and starts by itself when the table can be loaded again", async () => {
    await idle(host);
    await host.inside("mv /etc/pushgate/egress.conf /root/ && nft delete table inet pushgate_egress");
    try {
      await rebuild.push({ "layouts/index.html": front("unloaded") });
      await until("root cannot load the table", async () =>
        (await host.journal(units.build("site"))).includes("egress.conf") ? true : undefined,
      );
      expect((await rebuild.visit()).body).not.toContain("unloaded");
    } finally {
      await host.inside("mv /root/egress.conf /etc/pushgate/");
    }
    await shows(rebuild, "layout-unloaded");
    expect(await tables()).toContain("pushgate_egress");
  });

  test("its unit restarts any number of times and after a failed attempt, and would do neither without its two lines", async () => {
    const restart = async (times: number) => {
      const command = `rm -f /run/tried; for _ in $(seq ${times}); do systemctl restart pushgate-egress.service || exit 1; done`;
      const { code } = await host.inside(command, { check: false });
      return [code, await isActive("pushgate-egress.service")];
    };
    const withLines = (lines: string, work: () => Promise<unknown>) =>
      withDropIn(host, "pushgate-egress.service", lines, work);
    expect(await restart(12)).toEqual([0, "active"]);
    await withLines("[Unit]\nStartLimitIntervalSec=60s", async () => expect(await restart(12)).toEqual([1, "failed"]));

    const once = 'ExecStartPre=+/bin/sh -c "test -e /run/tried || { : >/run/tried; exit 1; }"';
    await withLines(once, async () => {
      expect(await restart(1)).toEqual([1, "activating"]);
      await until(
        "the unit is active",
        async () => (await isActive("pushgate-egress.service")) === "active" || undefined,
      );
    });
    await withLines(`${once}\nRestart=no`, async () => expect(await restart(1)).toEqual([1, "failed"]));
    expect(await tables()).toContain("pushgate_egress");
  });

  test("it is loaded again after a restart of nftables.service, which flushes all rules", async () => {
    await host.inside("systemctl start nftables.service && systemctl restart nftables.service");
    await until("the table is there", async () => (await tables()).includes("pushgate_egress") || undefined);
  });
});

test("one builder runs for a site, however often it is started; with a second unit there would be two", async () => {
  const unit = units.build("site");
  const files = `${paths.units}/${units.build()} ${paths.units}/${unit}.d/site.conf`;
  await host.inside(`sed 's/%i/site/g' ${files} >/run/systemd/system/pushgate-second.service
systemctl daemon-reload`);
  /** The most builders of the site, started by systemd, that were seen while these units are started again and again. */
  const most = (...started: string[]) =>
    host.read(`most=0
for _ in $(seq 30); do
  systemctl start --no-block ${started.join(" ")}
  touch ${placesOf("site").spool}/again.json
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

describe("requests", () => {
  const { requests, rootRequests } = placesOf("docs");
  const asMember = (command: string) =>
    host.inside("runuser -u guest -- sh -s", { stdin: `cd /home/guest\n${command}`, check: false });

  test("a member of the writers' group may request a build, no other account may, and none but root a rollback", async () => {
    await idle(host, "docs");
    const { trigger } = await runOf(host, () => rebuild.request("please", "guest", "docs"), { hook: "docs" });
    expect(trigger).toEqual(["request of a writer (please)"]);
    for (const account of ["nobody", generatorUser("docs"), builderUser("site")]) {
      const { code } = await host.inside(`runuser -u ${account} -- touch ${requests}/x`, { check: false });
      expect(code).not.toBe(0);
    }
    for (const attempt of [`ls ${rootRequests}`, `: >${rootRequests}/x`, `mv -T ${rootRequests} ${requests}/x`])
      expect((await asMember(attempt)).stderr).toContain("ermission denied");
    expect(await requestRollback(rebuild)).toBeUndefined();
    await host.inside(`chmod 0777 ${rootRequests}`);
    expect(await requestRollback(rebuild)).toBe("a member of the group rolled the site back");
    await host.inside(`chmod 0770 ${rootRequests}`);
  });

  test("root removes folders that members put in their place, which would stay without its unit", async () => {
    // find fails at a folder that root removes meanwhile.
    const left = () => host.read(`find ${requests} -mindepth 1 2>/dev/null || :`);
    const trick = () => asMember(`mkdir -p x/in && mv x ${requests}/`);
    const run = () => runOf(host, trick, { hook: "docs" });
    // The builder connects to root's socket after it has written its result.
    await withDropIn(host, units.stop("docs"), instead("/usr/bin/true"), () => run().then(() => idle(host, "docs")));
    expect(await left()).toMatch(/\/\.aside-\w{6}\/in$/);
    expect((await run()).warnings.join()).toContain("which root removes");
    await until("root has removed both", async () => (await left()) === "" || undefined);
  });

  test("the timer's unit starts a failed path unit, whatever a member put in place of its tick", async () => {
    const unit = units.requestPath("docs");
    await withoutBuilds("docs", async () => {
      await withDropIn(host, unit, "[Path]\nTriggerLimitIntervalSec=60s\nTriggerLimitBurst=1", async () => {
        await host.inside(`systemctl restart ${unit}`);
        const burst = `touch ${rootRequests}/x; sleep 0.3; systemctl stop ${units.build("docs")}`;
        await until("the path unit fails", async () => {
          await host.inside(burst);
          return (await isActive(unit)) === "failed" || undefined;
        });
      });
      await asMember(`ln -s /etc/shadow ${requests}/tick`);
      const shadow = await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow");
      await tick("docs");
      expect(await isActive(unit)).toBe("active");
      expect(await host.read("sha256sum /etc/shadow; stat -c %Y /etc/shadow")).toBe(shadow);
    });
    await idle(host, "docs");
  });
});

test("a builder starts in its unit's memory whatever pushes left, on its release's Node, and publishes", async () => {
  const { site, ...named } = placesOf("docs");
  const leave = async () => {
    leaveLargest(placesIn({ ...named, site: join(host.root, site) }));
    await host.inside(`chown -R ${builderUser("docs")} ${site}`);
  };
  // The least MemoryMax= of a builder, which this host's kernel may not count, and a heap as Node has it there.
  const memory = "LimitDATA=512M\nEnvironment=NODE_OPTIONS=--max-old-space-size=256";
  const last = await withDropIn(host, units.build("docs"), memory, () =>
    runOf(host, () => withoutBuilds("docs", leave), { hook: "docs", timeout: 120_000 }),
  );
  expect(last).toMatchObject({ result: "published", reason: "requested" });
  expect(await host.read(`ls ${site}/work/clone/.git`)).not.toContain("left");
});
