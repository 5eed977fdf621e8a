/** Attacks on a booted host by an account of it. Each round changes a site for real, which is then made anew. */
import { units } from "../../infra/host/paths.ts";
import { beneath, DirectApply, rebuildLayers, settingsOf } from "../hosts/apply-directly.ts";
import { startGitServer } from "../hosts/lab/git-server.ts";
import { bootHost } from "../hosts/lab/host.ts";
import type { Release } from "../hosts/lab/image.ts";
import { step, until } from "../hosts/lab/process.ts";
import { siteFiles } from "../hosts/rebuild/site.ts";
import { pending, statusOf } from "../hosts/rebuild/status.ts";
import { type Attack, exchanger } from "./attack.ts";

/** In files that only root may read. */
const secret = "SECRET-OF-THE-HOST";

export async function hostAttacks(release: Release) {
  const [host, git] = await step(`boot ${release}`, () =>
    Promise.all([bootHost({ name: "hostile", release, variant: "packages" }), startGitServer()]),
  );
  await git.introduce(host);
  await host.inside(`set -e
groupadd writers; usermod -aG writers guest
install -d -m 0700 /srv/private; install -d /srv/private/inner; for i in $(seq 200); do echo ${secret} >/srv/private/$i.html; done
printf -- '---\\ntitle: ${secret}\\n---\\n${secret}\\n' >/srv/private/inner/_index.md
install -d -o guest -g writers /srv/guest /srv/guest/content
printf -- '---\\ntitle: home\\n---\\nhello\\n' >/srv/guest/content/_index.md
chown -R guest:writers /srv/guest`);
  await host.writeFile("/usr/local/lib/exchanger", exchanger);
  git.repository("site").push(siteFiles());

  const hook = {
    ...{ name: "site", gitHost: "github", repository: git.url("site"), branch: "main" },
    site: {
      ...{ webRoot: "/srv/site", content: "/srv/guest/content", writers: "writers", limits: { seconds: 20 } },
    },
  } as const;
  const settings = settingsOf(host, [hook]);
  const secrets = { site: ["s".repeat(40)] };
  const direct = new DirectApply(host);
  const first = await step("apply the layers", () => direct.apply(settings, [...beneath, ...rebuildLayers], secrets));
  if (first.code !== 0) throw new Error(first.stderr);

  /** Waits for the builder's run; a failing one pauses. */
  const built = async () =>
    until(
      "the builder is idle or failing",
      async () => pending(host, "site").length === 0 || statusOf(host, "site")?.failing !== undefined || undefined,
    ).catch(() => {});
  /** A site that was never built has nothing that an attack could lead elsewhere. */
  const published = async () => {
    const shown = "test -e /var/lib/pushgate-sites/site/current/index.html";
    await until(
      "the site is published",
      async () => (await host.inside(shown, { check: false })).code === 0 || undefined,
    );
    await built();
  };
  /** Paths of the secret where it may not be: below the site's releases, or where the site is served. */
  const leaked = async () => {
    const places = "/var/lib/pushgate-sites/site/releases /srv/site";
    const found = await host.inside(`grep -rlsF ${secret} ${places} | head -n 3`, { check: false });
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
  const restore = async () => {
    await host.inside(`systemctl stop ${units.buildPath("site")} ${units.build("site")}
rm -rf /srv/site /srv/guest/content /var/spool/pushgate/site/*
rm -rf /var/lib/pushgate/sites/site /var/lib/pushgate-sites/site
install -d -o guest -g writers /srv/guest/content
printf -- '---\\ntitle: home\\n---\\nhello\\n' >/srv/guest/content/_index.md`);
    const { code, stderr } = await direct.apply(settings, ["egress", "builder", "site"], secrets);
    if (code !== 0) throw new Error(`the site could not be applied again: ${stderr}`);
    await host.inside("touch /var/spool/pushgate/site/first.json");
    await published();
  };
  const request = () => host.inside("runuser -u guest -- touch /var/spool/pushgate-publish/site/please");

  await published();

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
        const commit = git.repository("site").push({ ...siteFiles(), "static/turn": `${next()}` });
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
  ];
  return {
    attacks,
    async close() {
      await git.close();
      await host.kill();
    },
  };
}
