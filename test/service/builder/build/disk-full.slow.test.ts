/** A full disk, and builds that would fill it, in a mount namespace of the test. */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeEach, expect, test } from "vitest";
import type { Status } from "../../../../service/builder/run/status.ts";
import { type Bench, bundledBuilder, cannotBuild, closeGitHost, published, start, type Without } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";

const unshare = ["--user", "--map-root-user", "--mount"];
const noNamespace =
  spawnSync("unshare", [...unshare, "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0
    ? undefined
    : "user and mount namespaces are not allowed here: run as root";

beforeEach(({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  skip(noNamespace !== undefined, noNamespace);
});
afterAll(closeGitHost);

type Tried = Status & {
  /** Releases on the disk. */
  readonly count: number;
  readonly page: string;
  /** Blocks and inodes, in parts of a hundred. */
  readonly free: number;
};

/**
 * Runs `work` on a copy of a published site, on a small disk at its folder. `tried` runs the builder until its first
 * result, or for so many seconds; `sh` runs a line of shell before it. A fake Hugo in the mount namespace of that disk
 * takes the socket from the one that published: that one would write outside the disk.
 */
async function onSmallDisk(
  options: string,
  without: readonly Without[],
  work: (site: Bench, tried: (seconds: number, sh?: string) => Promise<Tried>) => Promise<void>,
): Promise<void> {
  const site = await published(1);
  const { places, folder } = site;
  const bundle = await bundledBuilder(folder, ...without);
  const { socket } = site.builder.settings.generator;
  const settings = join(folder, "builder.json");
  const fakeHugo = new URL("fake-hugo.ts", import.meta.url).pathname;
  mkdirSync(join(folder, "bin"));
  const script = `
cp -a ${places.site} ${folder}/former && mount -t tmpfs -o ${options} none ${places.site} &&
cp -a ${folder}/former/. ${places.site}/ || exit
rm -f ${socket} ${socket}.stop
node ${fakeHugo} ${settings} & trap "kill $!" EXIT
until [ -S ${socket}.stop ]; do kill -0 $! || exit; sleep 0.05; done
while read -r seconds sh; do
  eval "$sh"
  before=$(cksum <${places.status})
  timeout -s KILL "$seconds" node ${bundle} >/dev/null & builder=$!
  until ! kill -0 $builder || { grep -q '"failing"' ${places.status} && [ "$(cksum <${places.status})" != "$before" ]; }; do
    sleep 0.2
  done
  sleep 0.5; pkill -KILL -P $builder; wait $builder
  cat ${places.status} | tr -d '\\n'
  echo "|$(ls ${places.releases} | wc -l)|$(cat ${places.current}/index.html | tr -d '\\n')|$(stat -f -c '%a %b %d %c' ${places.site})"
done`;
  start(site, bundle).kill();
  const shell = spawn("unshare", [...unshare, "sh", "-c", script], {
    env: {
      PATH: `${join(folder, "bin")}:${dirname(process.execPath)}:${process.env.PATH}`,
      PUSHGATE_SETTINGS: settings,
      GIT_SSL_CAINFO: site.builder.authorities,
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const lines = createInterface({ input: shell.stdout })[Symbol.asyncIterator]();
  const tried = async (seconds: number, sh = ":") => {
    shell.stdin.write(`${seconds} ${sh}\n`);
    const [status, releases, page, free] = String((await lines.next()).value).split("|");
    const [blocks, ofBlocks, inodes, ofInodes] = free!.split(" ").map(Number) as [number, number, number, number];
    const least = Math.floor(100 * Math.min(blocks / ofBlocks, inodes / ofInodes));
    return { ...(JSON.parse(status!) as Status), count: Number(releases), page: page!, free: least };
  };
  try {
    await work(site, tried);
  } finally {
    shell.stdin.end();
    await new Promise((resolve) => shell.once("close", resolve));
    site.remove();
  }
}

test("status.json reports a full disk, the site stays, and the next run with free space publishes", {
  timeout: 150_000,
}, async () => {
  await onSmallDisk("size=8m", [], async (site, tried) => {
    const other = join(site.places.site, "other-file");
    site.repository.push({ ...siteFiles(2), "static/large.bin": randomBytes(500 << 10) });
    site.deliver();
    const full = await tried(60, `head -c 7340032 /dev/zero >${other}`);
    expect(full.last).toMatchObject({
      result: "failed",
      reason: expect.stringMatching(/the disk is full\. Free space|git cannot write its files\. Free space/),
    });
    expect(full).toMatchObject({ count: 1, page: expect.stringContaining(says(1)) });
    expect(await tried(60, `rm ${other}`)).toMatchObject({
      last: { result: "published" },
      page: expect.stringContaining(says(2)),
    });
  });
});

/**
 * A build that fills the disk: a program in place of Hugo, which reports that it could write no more. It is slow at the
 * end, so that a builder that looks every 50 ms, and gets no core for some of them, finds the reserve before it is used.
 */
const greedy: Readonly<Record<"bytes" | "files", readonly [options: string, write: string]>> = {
  bytes: ["size=64m", 'head -c 1000000 /dev/zero >"$out/$i.bin"'],
  files: ["size=64m,nr_inodes=4000", 'mkdir "$out/$i" && touch $(seq -f "$out/$i/%g.html" 50)'],
};

/** Pushes to such a build, and returns the status after it and whether the disk was full. */
async function fill(kind: keyof typeof greedy, site: Bench, tried: (seconds: number) => Promise<Tried>) {
  const full = join(site.folder, "was-full");
  const out = 'trap "" TERM; while [ "$1" != --destination ]; do shift; done; out=$2; echo home >"$out/index.html"';
  const program = `#!/bin/sh
${out}
for i in $(seq 300); do
  ${greedy[kind][1]} || { touch ${full}; exit 1; }
  [ "$i" -lt 45 ] || sleep 0.15
done 2>/dev/null
`;
  writeFileSync(join(site.folder, "bin/hugo"), program, { mode: 0o755 });
  site.repository.push(siteFiles(2));
  site.deliver();
  const status = await tried(60);
  rmSync(join(site.folder, "bin/hugo"));
  return { status, wasFull: existsSync(full) };
}

test.each(Object.keys(greedy) as (keyof typeof greedy)[])(
  "a build that writes too many %s is killed before the disk is full, and the next good push publishes",
  { timeout: 150_000 },
  async (kind) => {
    await onSmallDisk(greedy[kind][0], [], async (site, tried) => {
      const { status, wasFull } = await fill(kind, site, tried);
      expect(status.last, status.last.reason).toMatchObject({
        result: "failed",
        reason: expect.stringMatching(
          /^the disk is full\. Free space .*: a build leaves 3\.2 MiB and \d+ inodes of it free/,
        ),
      });
      expect(wasFull).toBe(false);
      // What it wrote was removed at once.
      expect(status.free).toBeGreaterThan(50);
      expect(status).toMatchObject({ count: 1, page: expect.stringContaining(says(1)) });
      expect(await tried(60)).toMatchObject({ last: { result: "published" }, page: expect.stringContaining(says(2)) });
    });
  },
);

test.each(Object.keys(greedy) as (keyof typeof greedy)[])(
  "without the look at the reserve, a build that writes too many %s fills the disk",
  { timeout: 150_000 },
  async (kind) => {
    const without: Without = [
      "disk-watch.ts",
      "if (found && isLess(found.free, least))",
      "if (found && isLess(found.free, found.free))",
    ];
    await onSmallDisk(greedy[kind][0], [without], async (site, tried) => {
      const { status, wasFull } = await fill(kind, site, tried);
      expect(wasFull, JSON.stringify(status)).toBe(true);
    });
  },
);
