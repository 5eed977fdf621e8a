/**
 * The power is cut at each change that the builder makes to the disk, from a delivery to its page and in a rollback.
 * After the cut the push is pending or published, visitors find one whole release, and no file claims what was lost.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { hashOf } from "../../../service/builder/release/hashed.ts";
import type { Step } from "../../cuts/durable-steps.ts";
import { startFakeHugo } from "../../service/builder/build/fake-hugo.ts";
import { type Bench, bundledBuilder, finish, gitHost, published, start } from "../../service/builder/harness.ts";
import { says, siteFiles } from "../../service/builder/hugo-site.ts";
import { CutDisk, type Cuts, type Terms } from "./disk.ts";

const preload = new URL("../../service/builder/run/calls.cjs", import.meta.url).pathname;

/** One state of the disk. `head` is the last push, `first` the release of the first one. */
type Look = { readonly site: Bench; readonly head: string; readonly first: string };

/** Revision 2 is pushed: a delivery is in the spool, and on the disk. */
export const cutsInPush = (terms: Terms, step?: Step): Promise<Cuts> =>
  cutsInBuild(1, 2, faultsAfterPush, terms, step, (site) => site.push(siteFiles(2)));

/** Revision 2 is published, and root requests the release of revision 1. */
export const cutsInRollback = (terms: Terms, step?: Step): Promise<Cuts> =>
  cutsInBuild(2, 1, faultsAfterRollback, terms, step, (site) => site.rollback(releases(site)[0]!));

async function cutsInBuild(
  from: number,
  to: number,
  faultsAfter: (look: Look) => string[],
  terms: Terms,
  step: Step | undefined,
  request: (site: Bench) => void,
): Promise<Cuts> {
  // Its folder is not on the disk.
  await gitHost();
  using disk = new CutDisk(terms);
  const site = await published(from, { parent: disk.folder });
  const without = step ? [[step.file.replace("service/builder/", ""), step.words, step.instead] as const] : [];
  const bundle = await bundledBuilder(site.folder, ...without);
  const calls = join(tmpdir(), `${basename(site.folder)}-calls`);
  request(site);
  disk.sync();
  const given = { CALLS: calls, CALLS_BELOW: site.folder, CALLS_PROGRAM: disk.program };
  await finish(site, start(site, bundle, { ...given, NODE_OPTIONS: `--require ${preload}` }));
  disk.cut();
  rmSync(calls);

  const head = site.repository.head()!;
  const first = releases(site)[0]!;
  const found = await disk.afterEach(site.folder, async (cut, isLast) => {
    const faults = [...faultsAfter({ site, head, first }), ...faultsOfSite(site)];
    if (isLast && (current(site) === first) !== (to === 1)) faults.push("what was reported is not on the disk");
    // A whole build takes a second.
    if (!step && cut % 16 === 8) faults.push(...(await nextBuild(site, bundle, to)));
    return faults;
  });
  site.remove();
  return found;
}

const releases = ({ places }: Bench): string[] => readdirSync(places.releases).sort();
const current = ({ places }: Bench): string => basename(readlinkSync(places.current));
const textOf = (file: string): string | undefined => (existsSync(file) ? readFileSync(file, "utf8") : undefined);

function faultsAfterPush({ site, head }: Look): string[] {
  const { spool, taken } = site.places;
  const pending = readdirSync(spool).length > 0 || textOf(taken)?.includes("delivery-2\n");
  return pending || current(site).endsWith(head.slice(0, 12)) ? [] : ["the push is lost"];
}

function faultsAfterRollback({ site, head, first }: Look): string[] {
  const { held, rootRequests } = site.places;
  if (current(site) !== first) return readdirSync(rootRequests).length > 0 ? [] : ["the rollback is lost"];
  return textOf(held) === `${head}\n` ? [] : ["the next build undoes the rollback"];
}

/** Without the builder's own functions, which remember manifests: those differ from cut to cut. */
function faultsOfSite(site: Bench): string[] {
  const { manifest, release, status, clone, work, checkedOut } = site.places;
  const faults: string[] = [];
  const parsed = (file: string) => {
    try {
      return JSON.parse(readFileSync(file, "utf8"));
    } catch {
      return undefined;
    }
  };
  const files: [string, number, string][] | undefined = parsed(manifest(current(site)))?.files;
  if (!files) faults.push("what is published has no manifest");
  for (const [path, , sha256] of files ?? [])
    if (hashOf(join(release(current(site)), path))?.sha256 !== sha256) faults.push("a visitor finds a broken file");
  if (existsSync(status) && !parsed(status)) faults.push("status.json is broken");

  const env = { ...process.env, GIT_INDEX_FILE: join(work, "index-of-test") };
  const git = (...args: string[]) => spawnSync("git", ["-C", clone, ...args], { env }).status === 0;
  if (!git("fsck", "--connectivity-only", "--no-dangling")) faults.push("the clone is broken");
  const complete = textOf(checkedOut)?.trim();
  if (complete !== undefined && !(git("read-tree", complete) && git("diff", "--quiet")))
    faults.push("the checkout is not complete");
  return faults;
}

/** The next builder publishes what is pending, without a person. */
async function nextBuild(site: Bench, bundle: string, revision: number): Promise<string[]> {
  const fake = await startFakeHugo(site.builder.settings);
  site.tick();
  const { last } = await finish(site, start(site, bundle)).finally(() => fake.close());
  if (!site.page().includes(says(revision))) return [`the next build ends with: ${last.reason}`];
  return last.warnings.map((warning) => `the next build warns: ${warning}`);
}
