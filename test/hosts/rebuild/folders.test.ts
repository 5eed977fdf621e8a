/**
 * Accounts that can write the content, or exchange the folders above it, lead a build to files that they may not read.
 * The same attack is made without the protection, where it must succeed. And what preview says of folders.
 */
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { generatorUser, units } from "../../../infra/host/paths.ts";
import { folderQuestion } from "../../../infra/host/site/site.ts";
import { example, serving } from "../../fixtures.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { deployedRebuild } from "./deployed.ts";
import { page, placesOf } from "./site.ts";
import { idle, runOf, timersEnd } from "./status.ts";
import { inPlaceOfHugo, withDropIn } from "./world.ts";

const rebuild = await deployedRebuild("folders");
const { host } = rebuild;

const { content } = placesOf("docs");
/** In files that all accounts may read, in folders that only their owner may enter. */
const secret = "SECRET-OF-ANOTHER-ACCOUNT";

beforeAll(async () => {
  for (const name of ["_index.md", "posts/one.md"])
    await host.writeFile(`/home/other/closed/${name}`, page("Closed", secret));
  await host.inside("chmod 0700 /home/other");
  await timersEnd(host);
  await idle(host, "docs");
});

const asGuest = (script: string) => host.inside("runuser -u guest -- sh -es", { stdin: `cd /home/guest\n${script}` });
const exchanged = "mv content aside && ln -s /home/other/closed content";
const restored = "rm content && mv aside content";

describe("a build", () => {
  const generator = "pushgate-generator-docs@.service";
  const built = () => runOf(host, () => rebuild.request("please", "guest", "docs"), { hook: "docs" });
  const failed = (reason: unknown) => ({ result: "failed", reason });
  const leaked = () => host.read(`grep -rls ${secret} ${placesOf("docs").site}/current/ || :`);
  /** Hugo without the unit's own program. */
  const alone = inPlaceOfHugo("/usr/bin/hugo --minify --noChmod --noTimes");
  const leaksAlone = async () => {
    await withDropIn(host, generator, alone, async () => expect(await built()).toMatchObject({ result: "published" }));
    expect(await leaked()).not.toBe("");
  };

  afterEach(async () => {
    expect(await built()).toMatchObject({ result: "published" });
    expect((await rebuild.visit("/", "docs")).body).toContain("words");
    expect(await leaked()).toBe("");
  });

  test("reads no content that its owner replaced by a link into a closed home, and would without the unit's own program", async () => {
    await asGuest(exchanged);
    const reason = `the account guest, which can exchange the content folder ${content}, cannot enter it. Run`;
    expect(await built()).toMatchObject(failed(expect.stringContaining(reason)));
    expect(await leaked()).toBe("");
    await leaksAlone();
    await asGuest(restored);
  });

  test("reads no content that is exchanged between root's look and systemd's mount", async () => {
    const exchange = `ExecStartPost=+/bin/sh -c 'cd /home/guest && ${exchanged}'\nProtectSystem=no\nProtectHome=no`;
    await withDropIn(host, units.content("docs"), exchange, async () =>
      expect(await built()).toMatchObject(
        failed("the content folder was exchanged for another while the build began. Push again."),
      ),
    );
    await asGuest(restored);
  });

  test("reads no content below a folder that several accounts can write: one could lead the other's way elsewhere", async () => {
    await host.inside("chmod g+w /home/guest");
    const reason = `the content folder ${content} is below /home/guest, which several accounts can write. Run chmod go-w /home/guest.`;
    expect(await built()).toMatchObject(failed(reason));
    await host.inside("chmod g-w /home/guest");
  });

  test("reports a missing content folder, and does not create it", async () => {
    await asGuest("mv content aside");
    expect(await built()).toMatchObject(failed(expect.stringContaining(`the content folder ${content} is missing. `)));
    await asGuest("test ! -e content && mv aside content");
  });

  const adapter =
    '{{ $.AddPage (dict "path" "x" "content" (dict "mediaType" "text/markdown" "value" (readFile "/layouts/private.txt"))) }}';
  test.each([
    // Hugo 0.111 follows links, and a later one has these templates.
    ["x.md", "ln -s /source/layouts/private.txt content/x.md", release === "bookworm"],
    [
      "a/_content.gotmpl",
      `mkdir content/a && printf '%s' '${adapter}' >content/a/_content.gotmpl`,
      release === "trixie",
    ],
    ["_content.en.gotmpl", `printf '%s' '${adapter}' >content/_content.en.gotmpl`, false],
  ])(
    "publishes no file of a private repository by a link or template of the content, %s, and would without the unit's own program",
    async (name, make, works) => {
      rebuild.repositories.docs.push({ "layouts/private.txt": `---\ntitle: x\n---\n${secret}\n` });
      await asGuest(make);
      const reason = `the content holds links or templates (_content.gotmpl), which could publish other files than the content: ${name}. Remove them.`;
      expect(await built()).toMatchObject(failed(reason));
      expect(await leaked()).toBe("");
      if (works) await leaksAlone();
      await asGuest(`rm -r content/${name.split("/")[0]}`);
    },
  );

  test("fails where a link is in the content only while Hugo reads", async () => {
    // In place of Hugo: a program during which the writer makes a link and removes it.
    await host.writeFile("/usr/local/bin/slow-hugo", '#!/bin/sh\n/usr/bin/hugo "$@" && sleep 3\n', "0755");
    const slow =
      'ExecStart=\nExecStart=/usr/local/lib/pushgate/generator build /content-of-docs "" /cache /usr/local/bin/slow-hugo --minify --noChmod --noTimes';
    const sleeps = async () => (await host.read(`pgrep -u ${generatorUser("docs")} -x sleep || :`)) !== "" || undefined;
    await withDropIn(host, generator, slow, async () => {
      const link = async () => {
        await until("the build runs", sleeps);
        await asGuest("ln -s /source/layouts/private.txt content/x.md && rm content/x.md");
      };
      const [last] = await Promise.all([built(), link()]);
      expect(last).toMatchObject(
        failed("files of the content were made, renamed or removed during the build, which is tried again."),
      );
    });
  });
});

test("preview names each folder that is not fit, as root, Hugo and nginx find it", async () => {
  const site = {
    ...{ webRoot: "/home/guest/www", content, hostname: "www.example.org" },
    folders: { one: "/srv/one", two: "/srv/two", three: "/srv/three", four: "/srv/four" },
  };
  const { script, facts } = folderQuestion(serving(example, site));
  const judged = () =>
    Promise.all(
      facts.map(async ({ read }) => {
        const { stdout } = await host.inside("LC_ALL=C sh -s", { stdin: `${script}\n${read}` });
        return stdout.trim();
      }),
    );
  await host.inside("mkdir -p /srv/two /srv/four && chmod 0700 /srv/four && ln -s two /srv/three");
  await asGuest(exchanged);
  expect(await judged()).toEqual([
    "below /home/guest (drwx------ guest:guest), which accounts other than root can write. Use a path below folders that root alone can write, such as /var/www/site.",
    "a link. Use the folder itself, /home/other/closed.",
    "missing. Run mkdir -p /srv/one on the host, or correct the path.",
    "fit",
    "a path with a link in it, and nginx follows none there. Use /srv/two.",
    "closed to nginx's account pushgate-nginx. Run chmod o+rx /srv/four on the host, and chmod o+x on the folders above.",
  ]);
  await asGuest(`${restored} && chmod 0700 content`);
  expect((await judged())[1]).toMatch(
    /^drwx------ guest:writers, which pushgate-generator-site cannot read\. Run chmod o\+rX/,
  );
  await asGuest("chmod 0755 content");
  expect((await judged())[1]).toBe("fit");
});
