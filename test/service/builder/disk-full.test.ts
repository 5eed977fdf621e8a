/** A full disk, in a mount namespace of the test. */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, expect, test } from "vitest";
import type { Status } from "../../../service/builder/status.ts";
import { bundledBuilder, cannotBuild, closeGitHost, published, start } from "./harness.ts";
import { says, siteFiles } from "./hugo-site.ts";

afterAll(closeGitHost);

const unshare = ["--user", "--map-root-user", "--mount"];
const noNamespace =
  spawnSync("unshare", [...unshare, "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0
    ? undefined
    : "user and mount namespaces are not allowed here: run as root";

test("status.json reports a full disk, the site stays, and the next run with free space publishes", async ({
  skip,
}) => {
  skip(cannotBuild !== undefined, cannotBuild);
  skip(noNamespace !== undefined, noNamespace);
  const site = await published(1);
  const { places } = site;
  const bundle = await bundledBuilder(site.folder);
  const settings = join(site.folder, "builder.json");
  const fakeHugo = new URL("fake-hugo.ts", import.meta.url).pathname;
  // A disk of 8 MiB at the site's folder while this shell runs; another file takes seven of them until it is removed.
  const script = `
cp -a ${places.site} ${site.folder}/former && mount -t tmpfs -o size=8m none ${places.site} &&
cp -a ${site.folder}/former/. ${places.site}/ && head -c 7340032 /dev/zero >${places.site}/other-file || exit
node ${fakeHugo} ${settings} & trap 'kill $!' EXIT
while read -r seconds; do
  timeout -s KILL "$seconds" node ${bundle} >/dev/null; cat ${places.status} | tr -d '\\n'
  echo "|$(ls ${places.releases} | wc -l)|$(cat ${places.current}/index.html | tr -d '\\n')"
  rm -f ${places.site}/other-file
done`;
  start(site, bundle).kill();
  const shell = spawn("unshare", [...unshare, "sh", "-c", script], {
    env: {
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      PUSHGATE_SETTINGS: settings,
      GIT_SSL_CAINFO: site.builder.authorities,
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const lines = createInterface({ input: shell.stdout })[Symbol.asyncIterator]();
  const tried = async (seconds: number) => {
    shell.stdin.write(`${seconds}\n`);
    const [status, releases, page] = String((await lines.next()).value).split("|");
    return { ...(JSON.parse(status!) as Status), count: Number(releases), page };
  };
  try {
    site.repository.push({ ...siteFiles(2), "static/large.bin": randomBytes(500 << 10) });
    site.deliver();
    const full = await tried(5);
    expect(full.last).toMatchObject({
      result: "failed",
      reason: expect.stringMatching(/the disk is full\. Free space|0 MiB free on the disk\. Free space/),
    });
    expect(full).toMatchObject({ count: 1, page: expect.stringContaining(says(1)) });
    expect(await tried(20)).toMatchObject({
      last: { result: "published" },
      page: expect.stringContaining(says(2)),
    });
  } finally {
    shell.stdin.end();
    await new Promise((resolve) => shell.once("close", resolve));
    site.remove();
  }
});
