/**
 * Accounts that can write the content, or exchange the folders above it, lead a build to files that they may not read.
 * The same attack is made without the protection, where it must succeed. And what preview says of folders.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Settings } from "../../../infra/config/settings.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { generatorUser, paths, units } from "../../../infra/host/paths.ts";
import { folderQuestion } from "../../../infra/host/site/site.ts";
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
mkdir -p /home/guest/content /home/other/closed
printf -- '---\\ntitle: home\\n---\\nhello\\n' >/home/guest/content/_index.md
printf -- '---\\ntitle: home\\n---\\n${secret}\\n' >/home/other/closed/_index.md
chown -R guest:guest /home/guest && chmod 0700 /home/guest /home/other`);
  git.repository("site").push(theme);
  hook = {
    name: "site",
    gitHost: "github",
    repository: git.url("site"),
    branch: "main",
    site: { webRoot: "/srv/site", content: "/home/guest/content" },
  };
  settings = settingsOf(host, [hook]);
  direct = new DirectApply(host);
  const ran = await direct.apply(settings, [...beneath, ...rebuildLayers], { site: ["s".repeat(40)] });
  expect(ran.code, ran.stderr).toBe(0);
});

afterAll(async () => {
  await git?.close();
  await host?.kill();
});

const contentIs = async (text: string) =>
  until(`the page shows ${text}`, async () =>
    (await served("/srv/site/index.html")).includes(text) ? true : undefined,
  );
const asGuest = (script: string) => host.inside("runuser -u guest -- sh -es", { stdin: `cd /home/guest\n${script}` });

test("content in a closed home is published", () => contentIs("hello"));

describe("a build, without the timers, whose runs have results, too:", () => {
  beforeAll(() => timersEnd(host));
  afterAll(() => timersBegin(host));

  const alone = [
    "ExecStart=",
    "ExecStart=/usr/bin/hugo --minify --noBuildLock --noChmod --noTimes --source /source --contentDir /content --destination /out --cacheDir /cache",
  ].join("\n");
  const hello = async () => {
    expect(await built()).toMatchObject({ result: "published" });
    expect(await served("/srv/site/index.html")).toContain("hello");
  };

  test("content that its owner replaces by a link into a closed home is not built, and would be without the unit's own program", async () => {
    await asGuest("mv content aside && ln -s /home/other/closed content");
    expect(await built()).toMatchObject({
      result: "failed",
      reason: expect.stringMatching(
        /^the account guest, which can exchange the content folder \/home\/guest\/content, cannot enter it\. Run/,
      ),
    });
    expect(await served("/srv/site/index.html")).toContain("hello");
    await withDropIn(units.generator("site"), alone, async () =>
      expect(await built()).toMatchObject({ result: "published" }),
    );
    expect(await served("/srv/site/index.html")).toContain(secret);
    await asGuest("rm content && mv aside content");
    await hello();
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
    await asGuest("rm content && mv aside content");
    await hello();
  });

  test("content below a folder that several accounts can write is not built: one could lead the other's way elsewhere", async () => {
    await host.inside("chmod g+w /home/guest");
    expect(await built()).toMatchObject({
      result: "failed",
      reason:
        "the content folder /home/guest/content is below /home/guest, which several accounts can write. Run chmod go-w /home/guest.",
    });
    await host.inside("chmod g-w /home/guest");
    await hello();
  });

  const adapter =
    '{{ $.AddPage (dict "path" "x" "content" (dict "mediaType" "text/markdown" "value" (readFile "/layouts/private.txt"))) }}';
  const [canLink, canTemplate] = [release === "bookworm", release === "trixie"];
  test.each([
    ["a link into the repository", "ln -s /source/layouts/private.txt content/x.md", "x.md", canLink],
    [
      "a template",
      `mkdir content/a && printf '%s' '${adapter}' >content/a/_content.gotmpl`,
      "a/_content.gotmpl",
      canTemplate,
    ],
    ["a template of a language", `printf '%s' '${adapter}' >content/_content.en.gotmpl`, "_content.en.gotmpl", false],
  ])(
    "a writer of the content publishes no file of a private repository by %s, and would without the unit's own program",
    async (_, make, name, works) => {
      git.repository("site").push({ "layouts/private.txt": `---\ntitle: x\n---\n${secret}\n` });
      await asGuest(make);
      expect(await built()).toMatchObject({
        result: "failed",
        reason: `the content holds links or templates (_content.gotmpl), which could publish other files than the content: ${name}. Remove them.`,
      });
      const leaked = () => host.read(`grep -rls ${secret} ${site}/current/ || :`);
      expect(await leaked()).toBe("");
      // Hugo 0.111 follows links, and a later one has these templates.
      if (works) {
        await withDropIn(units.generator("site"), alone, async () =>
          expect(await built()).toMatchObject({ result: "published" }),
        );
        expect(await leaked()).not.toBe("");
      }
      await asGuest(`rm -rf content/a && rm -f content/x.md content/_content.en.gotmpl`);
      await hello();
    },
  );

  test("a link that is there only while Hugo reads fails the build, and the next one publishes", async () => {
    // In place of Hugo: a program during which the writer makes a link and removes it.
    await host.writeFile("/usr/local/bin/slow-hugo", '#!/bin/sh\n/usr/bin/hugo "$@" && sleep 3\n', "0755");
    const slow = alone.replace(
      "ExecStart=/usr/bin/hugo",
      "ExecStart=/usr/local/lib/pushgate/generator-content run /content-of-site /usr/local/bin/slow-hugo",
    );
    await withDropIn(units.generator("site"), slow, async () => {
      const [result] = await Promise.all([
        built(),
        until(
          "the build runs",
          async () => (await host.read(`pgrep -u ${generatorUser("site")} -x sleep || :`)) || undefined,
        ).then(() => asGuest("ln -s /source/layouts/private.txt content/x.md && rm content/x.md")),
      ]);
      expect(result).toMatchObject({
        result: "failed",
        reason: "files of the content were made, renamed or removed during the build, which is tried again.",
      });
    });
    await hello();
  });
});

test("preview names each folder that is not fit, as root, Hugo and nginx find it", async () => {
  const own = settingsOf(host, [
    {
      ...hook,
      site: {
        ...{ webRoot: "/home/guest/www", content: "/home/guest/content", hostname: "www.example.org" },
        folders: { one: "/srv/one", two: "/srv/two", three: "/srv/three", four: "/srv/four" },
      },
    },
  ]);
  const { script, facts } = folderQuestion(own);
  const judged = () => Promise.all(facts.map(({ read }) => shell(`${script}\n${read}`)));
  await host.inside("mkdir -p /srv/two /srv/four && chmod 0700 /srv/four && ln -s two /srv/three");
  await asGuest("mv content aside && ln -s /home/other/closed content");
  expect(await judged()).toEqual([
    "below /home/guest (drwx------ guest:guest), which accounts other than root can write. Use a path below folders that root alone can write, such as /var/www/site.",
    "a link. Use the folder itself, /home/other/closed.",
    "missing. Run mkdir -p /srv/one on the host, or correct the path.",
    "fit",
    "a path with a link in it, and nginx follows none there. Use /srv/two.",
    "closed to nginx's account pushgate-nginx. Run chmod o+rx /srv/four on the host, and chmod o+x on the folders above.",
  ]);
  await asGuest("rm content && mv aside content && chmod 0700 content");
  expect((await judged())[1]).toMatch(
    /^drwx------ guest:guest, which pushgate-generator-site cannot read\. Run chmod o\+rX/,
  );
  await asGuest("chmod 0755 content");
  expect((await judged())[1]).toBe("fit");
  await host.inside("rm /srv/three && rmdir /srv/two /srv/four");
});

test("preview never runs Hugo's program as root, and no program that another account can write", async () => {
  await host.writeFile("/opt/tool/hugo", "#!/bin/sh\nid -un >/tmp/ran-as; echo 'hugo v0.999.0'\n", "0755");
  await host.inside("chown guest:guest /opt/tool/hugo");
  const own = settingsOf(host, [{ ...hook, site: { ...(hook.site as object), hugo: { path: "/opt/tool/hugo" } } }]);
  const { script, facts } = builderLayer(own, own.hosts[0]!);
  const { read, want } = facts.find(({ name }) => name === "/opt/tool/hugo is")!;
  const ask = async (without = "", text = script, account = generatorUser("site")) => {
    await host.inside("rm -f /tmp/ran-as");
    const said = await shell(`${text}\n${without}\n${read.replace(generatorUser("site"), account)}`);
    return { said, as: (await served("/tmp/ran-as")).trim() };
  };
  const rejected = (path: string) => ({
    said: expect.stringMatching(`^not root's alone: .* can write ${path}; run chown`),
    as: "",
  });
  expect(await ask()).toEqual(rejected("/opt/tool/hugo"));
  const open = "written_by_others() { :; }";
  expect((await ask(open)).as).toBe(generatorUser("site"));
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
  expect(await ask()).toEqual({ said: want, as: generatorUser("site") });
  // Before the first `up` there is no such account.
  expect((await ask("", script, "missing")).as).toBe("nobody");
  await host.inside("rm -r /opt/tool");
});
