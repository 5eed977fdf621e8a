/**
 * Repository code that lives on after its build, and exchanges a folder of its output for a link to private files while
 * the builder copies. On a host no process of a build is left by then (test/hosts/rebuild); here one is, and the copy
 * alone must not be led on.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { startFakeHugo } from "../build/fake-hugo.ts";
import {
  type Bench,
  bench,
  bundledBuilder,
  cannotBuild,
  closeGitHost,
  finish,
  start,
  type Without,
} from "../harness.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-exchange-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
afterAll(closeGitHost);
const at = (path: string) => join(folder, path);

/** RENAME_EXCHANGE in a loop, in a session of its own. Arguments: two paths, and a file that ends it once it is gone. */
const exchanging = `use POSIX;
my $number = {x86_64 => 316, aarch64 => 276}->{(POSIX::uname())[4]} or exit 1;
exit if fork;
POSIX::setsid();
my $until = time + 20;
while (time < $until && -e $ARGV[2]) { syscall($number, -100, $ARGV[0], -100, $ARGV[1], 2) for 1..100 }
`;

describe("a program that lives on and exchanges a folder for a link", () => {
  const secret = "PRIVATE-KEY-OF-ANOTHER";
  const names = Array.from({ length: 400 }, (_, i) => `${i}.html`);
  let site: Bench;
  afterEach(() => site?.remove());

  /** How often the secret was published in so many builds. */
  async function stolen(builds: number, ...without: readonly Without[]): Promise<number> {
    mkdirSync(at("private"));
    for (const name of names) writeFileSync(join(at("private"), name), secret);
    writeFileSync(at("exchanging.pl"), exchanging);
    const hugo = `#!/bin/sh
while [ "$1" != --destination ]; do shift; done
cd "$2" || exit 1
echo home >index.html
mkdir a
for name in ${names.join(" ")}; do echo public >"a/$name"; done
ln -s '${at("private")}' '${at("link")}'-$$
perl '${at("exchanging.pl")}' "$2/a" '${at("link")}'-$$ '${at("go")}' >/dev/null 2>&1 </dev/null
`;
    writeFileSync(at("hugo"), hugo, { mode: 0o755 });
    site = await bench({ generator: { socket: at("hugo.sock"), result: at("hugo.result") }, pages: 1 });
    const fake = await startFakeHugo(site.builder.settings, { path: at("hugo") });
    const bundle = await bundledBuilder(folder, ...without);
    let count = 0;
    for (let build = 0; build < builds && count === 0; build += 1) {
      writeFileSync(at("go"), "");
      site.tick();
      site.request(`build-${build}`);
      await finish(site, start(site, bundle));
      count += spawnSync("grep", ["-rlq", secret, site.places.releases]).status === 0 ? 1 : 0;
      rmSync(at("go"));
      // The loop looks every 100 exchanges.
      await sleep(200);
    }
    fake.close();
    return count;
  }

  test("publishes nothing of what the link leads to, and would, if the builder went by paths", async ({ skip }) => {
    skip(cannotBuild !== undefined, cannotBuild);
    expect(await stolen(10)).toBe(0);
    site.remove();
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    const byPath: Without = ["files.ts", 'if (process.platform !== "linux") return', "return"];
    expect(await stolen(40, byPath)).toBe(1);
  }, 300_000);
});
