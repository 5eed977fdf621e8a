/**
 * Attacks on a booted host by an account of it, and by a build. Each round changes a site for real, which is then
 * made anew.
 */
import { units } from "../../infra/host/paths.ts";
import { beneath, DirectApply, rebuildLayers, settingsOf } from "../hosts/apply-directly.ts";
import { startGitServer } from "../hosts/lab/git-server.ts";
import { bootHost } from "../hosts/lab/host.ts";
import type { Release } from "../hosts/lab/image.ts";
import { step, until } from "../hosts/lab/process.ts";
import type { HookName } from "../hosts/rebuild/site.ts";
import { pending, statusOf } from "../hosts/rebuild/status.ts";
import { type Attack, exchanger } from "./attack.ts";

/** In files that only root, or only another site, may read. */
const secret = "SECRET-OF-THE-HOST";

const page = "<!doctype html><title>{{ .Title }}</title>{{ .Content }}";
const theme = () => ({
  "layouts/index.html": page,
  "layouts/_default/single.html": page,
  "layouts/_default/list.html": page,
  "hugo.toml": 'title = "one"\n',
});

/**
 * Code in the process of Hugo: it reports the end of its build, closes the connection, lives on and exchanges folders of
 * the output for links while the builder looks at it. `0.bin` delays a copy after the look.
 */
const forging = `#!/usr/bin/perl
use Time::HiRes qw(sleep);
my ($away, $back) = @ARGV;
my %links = (key => '/run/credentials/pushgate-build@docs.service', clone => '/var/lib/pushgate-sites/site/work/clone');
my %files = (key => "deploy-key", clone => "private.txt");
sub put { open(my $file, ">", $_[0]) or die; print $file $_[1]; close $file }
mkdir "/out/z";
for (keys %links) { mkdir "/out/$_"; put("/out/$_/$files{$_}", "public") }
put("/out/$_.html", "page") for "index", 1..9;
put("/out/0.bin", "x" x 5e7);
$| = 1;
print "pushgate-generator result=success code=exited status=0\n";
shutdown(STDOUT, 2);
for (1..10) {
  sleep $back;
  for (keys %links) { rename "/out/$_", "/out/z/$_"; symlink $links{$_}, "/out/$_" }
  sleep $away;
  for (keys %links) { unlink "/out/$_"; rename "/out/z/$_", "/out/$_" }
}
`;

export async function hostAttacks(release: Release) {
  const [host, git] = await step(`boot ${release}`, () =>
    Promise.all([bootHost({ name: "hostile", release, variant: "packages" }), startGitServer()]),
  );
  await git.introduce(host);
  await host.inside(`set -e
groupadd writers; usermod -aG writers guest
install -d -m 0700 /srv/private; install -d /srv/private/inner; for i in $(seq 200); do echo ${secret} >/srv/private/$i.html; done
printf -- '---\\ntitle: ${secret}\\n---\\n${secret}\\n' >/srv/private/inner/_index.md
install -d -o guest -g writers /srv/guest /srv/guest/content /srv/docs
printf -- '---\\ntitle: home\\n---\\nhello\\n' | tee /srv/guest/content/_index.md >/srv/docs/_index.md
chown -R guest:writers /srv/guest; chmod -R a+rX /srv/docs`);
  await host.writeFile("/usr/local/lib/exchanger", exchanger);
  await host.writeFile("/usr/local/lib/forging", forging, "0755");
  git.repository("site").push({ ...theme(), "private.txt": secret });
  git.repository("docs").push(theme());

  const hook = (name: string, site: object) => ({
    name,
    gitHost: "github",
    repository: name === "docs" ? git.ssh.url(name) : git.url(name),
    branch: "main",
    site: { limits: { seconds: 20 }, ...site },
  });
  const hooks = [
    hook("site", {
      webRoot: "/srv/site",
      content: "/srv/guest/content",
      writers: "writers",
    }),
    hook("docs", { webRoot: "/var/www/docs", content: "/srv/docs", knownHosts: [git.ssh.knownHosts] }),
  ] as const;
  const settings = settingsOf(host, hooks);
  const secrets = { site: ["s".repeat(40)], docs: ["d".repeat(40)], "docs.deploy-key": [git.ssh.deployKey] };
  const direct = new DirectApply(host);
  const first = await step("apply the layers", () => direct.apply(settings, [...beneath, ...rebuildLayers], secrets));
  if (first.code !== 0) throw new Error(first.stderr);

  /** Waits for the builder's run; a failing one pauses. */
  const built = async (name: HookName = "site") =>
    until(
      "the builder is idle or failing",
      async () => pending(host, name).length === 0 || statusOf(host, name)?.failing !== undefined || undefined,
    ).catch(() => {});
  /** A site that was never built has nothing that an attack could lead elsewhere. */
  const published = async (name: HookName) => {
    const shown = `test -e /var/lib/pushgate-sites/${name}/current/index.html`;
    await until(
      `${name} is published`,
      async () => (await host.inside(shown, { check: false })).code === 0 || undefined,
    );
    await built(name);
  };
  /** Paths of a secret where it may not be: below a site's releases, or where a site is served. */
  const leaked = async (name = "site") => {
    const found = await host.inside(
      `grep -rlsF -e ${secret} -e 'PRIVATE KEY' /var/lib/pushgate-sites/${name}/releases /srv/site | head -n 3`,
      { check: false },
    );
    return found.stdout === "" ? undefined : `published: ${found.stdout.trim()}`;
  };
  /** Runs `work` while guest runs the script. */
  const against = async <T>(script: string, work: () => Promise<T>): Promise<T> => {
    await host.writeFile("/usr/local/lib/attack", script);
    const unit = "systemd-run --quiet --collect --unit=attack --uid=guest --gid=writers /bin/sh /usr/local/lib/attack";
    await host.inside(unit);
    try {
      return await work();
    } finally {
      await host.inside("systemctl stop attack.service", { check: false });
    }
  };
  /** The site as it was, whatever a round left of it. */
  const restore = async (name: HookName = "site") => {
    await host.inside(`systemctl stop ${units.buildPath(name)} ${units.build(name)}
rm -rf /srv/site /srv/guest/content /var/spool/pushgate/${name}/*
rm -rf /var/lib/pushgate/sites/site /var/lib/pushgate-sites/${name}
install -d -o guest -g writers /srv/guest/content
printf -- '---\\ntitle: home\\n---\\nhello\\n' >/srv/guest/content/_index.md`);
    const { code, stderr } = await direct.apply(settings, ["egress", "builder", "site"], secrets);
    if (code !== 0) throw new Error(`the site could not be applied again: ${stderr}`);
    await host.inside(`touch /var/spool/pushgate/${name}/first.json`);
    await published(name);
  };
  const request = () => host.inside("runuser -u guest -- touch /var/spool/pushgate-publish/site/please");

  for (const name of ["site", "docs"] as const) await published(name);

  const attacks: Attack[] = [
    {
      name: "a writer exchanges the content folder for a link into a closed folder",
      async round() {
        await host.inside("ln -sfn /srv/private/inner /srv/guest/other");
        await against("exec perl /usr/local/lib/exchanger 60 /srv/guest/content /srv/guest/other", async () => {
          for (let i = 0; i < 3; i++) {
            await request();
            await built();
          }
        });
        const won = await leaked();
        await host.inside("rm -rf /srv/guest/other");
        await restore();
        return won;
      },
    },
    {
      name: "a writer exchanges files, folders and links in the folder of requests",
      async round(next) {
        // systemd's own count of restarts begins anew when the path unit starts the builder.
        const ends = () =>
          host.read(`journalctl -u ${units.build("site")} -o cat | grep -c 'Failed with result' || true`);
        const before = await ends();
        const folder = "/var/spool/pushgate-publish/site";
        const commit = git.repository("site").push({ ...theme(), "static/turn": `${next()}` });
        await against(
          `cd ${folder}
perl /usr/local/lib/exchanger 8 .taken x x y y .taken &
while :; do mkdir -p x/in; mkdir -p .taken/in; ln -sn /var/lib/pushgate-sites/site/work y; mkfifo p; : >f; done 2>/dev/null`,
          async () => {
            await host.inside("touch /var/spool/pushgate/site/1.json");
            await until(
              "the push is published",
              async () =>
                (await host.read("cat /var/lib/pushgate-sites/site/work/manifests/*.json")).includes(commit)
                  ? true
                  : undefined,
              { timeout: 60_000 },
            );
          },
        );
        await host.inside(`rm -rf ${folder}/* ${folder}/.[!.]*`, { check: false });
        await built();
        const ended = (await ends()) === before ? undefined : "the builder ended in the middle of a run";
        const timers = `systemctl is-active ${units.buildPath("site")} ${units.reconcileTimer("site")}`;
        const active = (await host.inside(timers, { check: false })).code === 0;
        return ended ?? (active ? undefined : "the path unit or the timer is not active");
      },
    },
    {
      name: "a build reports its own end, lives on and exchanges what it made for links",
      async round(next) {
        const unit = "/run/systemd/system/pushgate-generator-docs@.service.d";
        const run = `/usr/local/lib/forging ${0.1 + next() / 2} ${0.05 + next() / 5}`;
        await host.writeFile(`${unit}/forging.conf`, `[Service]\nExecStart=\nExecStart=${run}\n`);
        await host.inside("systemctl daemon-reload");
        git.repository("docs").push({ ...theme(), "static/turn": `${next()}` });
        await host.inside("touch /var/spool/pushgate/docs/1.json");
        await until(
          "the delivery is taken",
          async () => (await host.read("ls /var/spool/pushgate/docs")) === "" || undefined,
        );
        await built("docs");
        const won = await leaked("docs");
        await host.inside(`rm -r ${unit} && systemctl daemon-reload`);
        await restore("docs");
        return won;
      },
    },
  ];
  return {
    attacks,
    async close() {
      await git.close();
      await host.kill();
    },
  };
}
