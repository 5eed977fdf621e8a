/**
 * An account that owns the web root and the content exchanges what is in its folders while root works there. The same
 * attack is made on the former commands, where it must succeed.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Settings } from "../../../infra/config/settings.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { hugoUser, paths, units } from "../../../infra/host/paths.ts";
import { folderQuestion, siteLayer } from "../../../infra/host/site/site.ts";
import { beneath, DirectApply, rebuildLayers, settingsOf } from "../apply-directly.ts";
import { type GitServer, startGitServer } from "../lab/git-server.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { timersBegin, timersEnd } from "./status.ts";

let host: Host;
let git: GitServer;
let direct: DirectApply;
let settings: Settings;
let hook: Record<string, unknown>;

const page = "<!doctype html><title>{{ .Title }}</title>{{ .Content }}";
const theme = {
  "layouts/index.html": page,
  "layouts/_default/single.html": page,
  "layouts/_default/list.html": page,
  "hugo.toml": 'title = "one"\n',
  "config.toml": 'title = "one"\n',
};
/** In files that all accounts may read, in folders that only their owner may enter. */
const secret = "SECRET-OF-ANOTHER-ACCOUNT";

const site = `${paths.sites}/site`;
const served = (path: string) => host.inside(`cat ${path}`, { check: false }).then(({ stdout }) => stdout);
const shell = async (stdin: string) => (await host.inside("LC_ALL=C sh -s", { stdin })).stdout.trim();
const asGuest = (script: string) => `setsid runuser -u guest -- sh -c '${script}' >/dev/null 2>&1 &\nattacker=$!`;

/** Shell: `attempt` up to so often while guest's `attack` runs; prints "won" once the secret is below /root/out. */
const race = (attack: string, attempt: string, times: number) => `${asGuest(attack)}
for _ in $(seq ${times}); do
  ${attempt}
  ! grep -rqs ${secret} /root/out || { echo won; break; }
done
kill -- -$(ps -o pgid= $attacker | tr -d ' ')`;

/** One attempt in about 500 wins, on a busy computer one in more. */
const wins = async (attack: string, attempt: string): Promise<void> =>
  expect((await host.inside(race(attack, attempt, 10_000), { timeout: 240_000 })).stdout.trim()).toBe("won");

/** Requests a build and waits for its result. */
async function built() {
  const last = async () => {
    const text = await served(`${site}/status.json`);
    return text === ""
      ? undefined
      : (JSON.parse(text) as { last: { at: string; result: string; reason: string } }).last;
  };
  const before = (await last())?.at;
  await host.inside(`: >${paths.requests}/site/please`);
  return until("the builder reports a result", async () => {
    const now = await last();
    return now?.at === before ? undefined : now;
  });
}

async function withDropIn<T>(unit: string, lines: string, work: () => Promise<T>): Promise<T> {
  await host.writeFile(`/run/systemd/system/${unit}.d/taken.conf`, `[Service]\n${lines}\n`);
  await host.inside("systemctl daemon-reload");
  try {
    return await work();
  } finally {
    await host.inside(`rm -r /run/systemd/system/${unit}.d && systemctl daemon-reload`);
  }
}

beforeAll(async () => {
  [host, git] = await Promise.all([bootHost({ name: "folders", release, variant: "packages" }), startGitServer()]);
  await git.introduce(host);
  await host.inside(`set -e
mkdir -p /home/guest/content /home/guest/www/shared /home/other/closed /root/closed
printf -- '---\\ntitle: home\\n---\\nhello\\n' >/home/guest/content/_index.md
printf -- '---\\ntitle: home\\n---\\n${secret}\\n' | tee /home/other/closed/_index.md >/root/closed/page
echo former >/home/guest/www/index.html
chown -R guest:guest /home/guest && chmod 0700 /home/guest /home/other /root/closed`);
  git.repository("site").push(theme);
  hook = {
    name: "site",
    gitHost: "github",
    repository: git.url("site"),
    branch: "main",
    site: { webRoot: "/home/guest/www", content: "/home/guest/content" },
  };
  settings = settingsOf(host, [hook]);
  direct = new DirectApply(host);
  const ran = await direct.apply(settings, [...beneath, ...rebuildLayers], { site: ["s".repeat(40)] });
  expect(ran.code, ran.stderr).toBe(0);
  await host.writeFile("/root/site.sh", siteLayer(settings).script!);
});

afterAll(async () => {
  await git?.close();
  await host?.kill();
});

test("a folder in a closed home is adopted and served", async () => {
  await until("the site is built", async () =>
    (await served("/home/guest/www/index.html")).includes("hello") ? true : undefined,
  );
  expect(await served(`${site}/releases/000001-adopted/index.html`)).toBe("former\n");
  expect(await host.read("ls -A /home/guest")).not.toContain("pushgate");
});

test("an account that exchanges a folder for a link during the copy gets no file of root's, and would by cp as root", async () => {
  await host.inside(`mkdir -p /home/guest/race/d && cd /home/guest/race && echo page >d/page && ln -s /root/closed l
chown -hR guest:guest /home/guest/race`);
  const attack =
    'cd /home/guest/race && exec perl -e "while (1) { rename qq(d), qq(t); rename qq(l), qq(d); rename qq(d), qq(l); rename qq(t), qq(d) }"';
  const former = "rm -rf /root/out; cp -a /home/guest/race /root/out 2>/dev/null";
  const copied = (as = "") => `rm -rf ${site}/raced /root/out
  (. /root/site.sh; ${as}
  scratch=$(mktemp -d) && cd /home/guest/race && copy_public ${site}/raced) 2>/dev/null; cp -r ${site}/raced /root/out`;
  await wins(attack, former);
  expect(await host.read(race(attack, copied(), 60))).toBe("");
  // tar alone, with root's rights.
  expect(await host.read(race(attack, copied('as_builder() { "$@"; };'), 60))).toBe("");
  await host.inside(`rm -rf ${site}/raced /root/out /home/guest/race`);
}, 300_000);

describe("a build, without the timers, whose runs have results, too:", () => {
  beforeAll(() => timersEnd(host));
  afterAll(() => timersBegin(host));

  test("content that its owner replaces by a link into a closed home is not built, and would be without the unit's own program", async () => {
    await host.inside(
      "cd /home/guest && runuser -u guest -- mv content aside && runuser -u guest -- ln -s /home/other/closed content",
    );
    expect(await built()).toMatchObject({
      result: "failed",
      reason:
        "/home/guest/content is a link that the account guest can exchange. Name the folder itself, or have root own /home/guest alone.",
    });
    expect(await served("/home/guest/www/index.html")).toContain("hello");
    const without =
      "ExecStart=\nExecStart=/usr/bin/hugo --minify --noBuildLock --noChmod --noTimes --source /source --contentDir /content --destination /out --cacheDir /cache";
    await withDropIn(units.hugo("site"), without, async () =>
      expect(await built()).toMatchObject({ result: "published" }),
    );
    expect(await served("/home/guest/www/index.html")).toContain(secret);
    await host.inside("cd /home/guest && rm content && mv aside content");
    expect(await built()).toMatchObject({ result: "published" });
    expect(await served("/home/guest/www/index.html")).toContain("hello");
  });

  test("content that is exchanged between root's look and systemd's mount is not built", async () => {
    const swap =
      "ExecStartPost=+/bin/sh -c 'cd /home/guest && mv content aside && ln -s /home/other/closed content'\nProtectSystem=no\nProtectHome=no";
    await withDropIn(units.content("site"), swap, async () =>
      expect(await built()).toMatchObject({
        result: "failed",
        reason: "the content folder was exchanged for another while the build began. Push again.",
      }),
    );
    await host.inside("cd /home/guest && rm content && mv aside content");
    expect(await built()).toMatchObject({ result: "published" });
  });
});

test("preview names the folders that other accounts can write, and an exchanged content folder", async () => {
  const [webRoot, content] = folderQuestion(settings).facts;
  const ask = (read: string) => shell(`${folderQuestion(settings).script}\n${read}`);
  expect(await ask(webRoot!.read)).toBe("/home/guest (drwx------ guest:guest)");
  expect(await ask(content!.read)).toBe("/home/guest (drwx------ guest:guest)");
  expect(await ask("others_above /var/www/site")).toBe("");
  await host.inside("cd /home/guest && mv content aside && ln -s /home/other/closed content");
  expect((await direct.probe(settings, ["site"])).site!.drift.join()).toContain(
    'content folder /home/guest/content: declared is "readable", the host reports "/home/guest/content is a link that the account guest can exchange.',
  );
  await host.inside("cd /home/guest && rm content && mv aside content");
  expect((await direct.probe(settings, ["site"])).site).toMatchObject({ inSync: true });
});

test("preview never runs Hugo's program as root, and no program that another account can write", async () => {
  await host.writeFile("/opt/tool/hugo", "#!/bin/sh\nid -un >/tmp/ran-as; echo 'hugo v0.999.0'\n", "0755");
  await host.inside("chown guest:guest /opt/tool/hugo");
  const own = settingsOf(host, [{ ...hook, site: { ...(hook.site as object), hugo: { path: "/opt/tool/hugo" } } }]);
  const { script, facts } = builderLayer(own, own.hosts[0]!);
  const { read, want } = facts.find(({ name }) => name === "/opt/tool/hugo is")!;
  const ask = async (without = "", text = script, account = "") => {
    await host.inside("rm -f /tmp/ran-as");
    const said = await shell(`${text}\n${without}\n${account === "" ? read : read.replace(/\S+$/, account)}`);
    return { said, as: (await served("/tmp/ran-as")).trim() };
  };
  const rejected = (path: string) => ({
    said: expect.stringMatching(`^not root's alone: .* can write ${path}; run chown`),
    as: "",
  });
  expect(await ask()).toEqual(rejected("/opt/tool/hugo"));
  const open = "written_by_others() { :; }";
  expect((await ask(open)).as).toBe(hugoUser("site"));
  const asRoot = script!.replace(/env -i [^|]* -- "\$1" version/, '"$1" version');
  expect(asRoot).not.toBe(script);
  expect((await ask(open, asRoot)).as).toBe("root");
  await host.inside("chown root:root /opt/tool/hugo && chown guest /opt/tool");
  expect(await ask()).toEqual(rejected("/opt/tool"));
  // Another account's link to a program of root's.
  await host.inside(
    "chown root /opt/tool && ln -s /usr/bin/hugo /opt/tool/link && mkdir /opt/open && chmod 0777 /opt/open && mv /opt/tool/link /opt/open/ && ln -sf /opt/open/link /opt/tool/hugo",
  );
  expect(await ask()).toEqual(rejected("/opt/open"));
  await host.inside("rm -r /opt/open /opt/tool/hugo");
  await host.writeFile("/opt/tool/hugo", "#!/bin/sh\nid -un >/tmp/ran-as; echo 'hugo v0.999.0'\n", "0755");
  expect(await ask()).toEqual({ said: want, as: hugoUser("site") });
  // Before the first `up` there is no such account.
  expect((await ask("", script, "missing")).as).toBe("nobody");
  await host.inside("rm -r /opt/tool");
});

test("a link that the owner makes again and again where root once copied gets no file, and would by the former commands", async () => {
  const attack = "while :; do ln -s /root/out /home/guest/www.pushgate-new; done";
  await host.inside("chmod 0711 /root && mkdir -p /root/out");
  const former = `rm -rf -- /home/guest/www.pushgate-new; cp -a -- /root/closed/. /home/guest/www.pushgate-new 2>/dev/null`;
  await wins(attack, former);
  await host.inside("rm -rf /root/out /home/guest/www.pushgate-new && mkdir /root/out");

  const { site: _, ...plain } = hook;
  const now = await served("/home/guest/www/index.html");
  await host.inside(`${asGuest(attack)}\necho $attacker >/run/attacker`);
  const ran = await direct.apply(settingsOf(host, [plain]), [...rebuildLayers].reverse());
  await host.inside("kill -- -$(ps -o pgid= $(cat /run/attacker) | tr -d ' ')");
  expect(ran.code, ran.stderr).toBe(0);
  expect(await host.read("ls -A /root/out")).toBe("");
  expect(await served("/home/guest/www/index.html")).toBe(now);
  expect(await host.read("stat -c '%F %U:%G %a' /home/guest/www")).toBe("directory guest:guest 755");
  expect(await host.read("ls -A /home/guest")).not.toMatch(/^\.www/m);
});
