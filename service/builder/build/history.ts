/**
 * The history that a generator may show on its pages: the commits and folders of the built commit and of those before it,
 * in a repository of its own. The clone holds more, which a repository's templates could publish: what a forced push
 * removed, and every version of every file.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { beginningOf, ifThere, readText, remove, writeWhole } from "../files.ts";
import { type BuildContext, gitFault } from "../source/repository.ts";
import { readsHistory } from "./hugo.ts";

/** git names the head of a bundle. */
const built = "refs/pushgate/built";

/** Each run adds a pack, which is three files. Many would make git slow. */
const mostFiles = 100;

/** `files`: of the checkout. Removes the history where no configuration names it. Throws Setback, CloneFault. */
export async function provideHistory(context: BuildContext, commit: string, files: readonly string[]) {
  const { git, settings } = context;
  const { clone, history, work } = context.places;
  const text = (path: string) => beginningOf(join(clone, path), 1 << 20);
  if (!readsHistory(files, text, settings.folder)) {
    remove(history);
    // Before Hugo 0.168 starts Node, it lists all folders of the source. The clone's .git is the builder's alone.
    return void mkdirSync(join(history, ".git"), { recursive: true });
  }
  const head = join(history, ".git/HEAD");
  const former = readText(head)?.trim();
  if (former === commit) return;
  const packs = ifThere(() => readdirSync(join(history, ".git/objects/pack")));
  const grows =
    packs && packs.length < mostFiles && (await git(["merge-base", "--is-ancestor", former ?? "", commit])).code === 0;
  if (!grows) remove(history);
  // Removed when the build begins, or by the next builder.
  const bundle = join(work, "former-history");
  const format = commit.length === 64 ? "sha256" : "sha1";
  for (const [step, cwd] of [
    ...(grows ? [] : [[["init", "--quiet", `--object-format=${format}`, history], work] as const]),
    [["update-ref", built, commit], clone],
    [["bundle", "create", "--quiet", bundle, "--filter=blob:none", built, ...(grows ? [`^${former}`] : [])], clone],
    [["bundle", "unbundle", bundle], history],
  ] as const) {
    const done = await git(step, cwd);
    if (done.code !== 0) throw gitFault(done, settings, "give the history to the build");
  }
  // Last: what a killed builder left is no ancestor of a commit.
  writeWhole(head, `${commit}\n`);
}
