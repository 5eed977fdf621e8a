/** A site whose content is in its repository, at its top or in the folder docs. */
import { afterAll, afterEach, beforeEach, expect } from "vitest";
import { builderSettings } from "../../../../infra/host/builder/builder.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { rebuilt } from "../../../fixtures.ts";
import { type Bench, bench, type Change, cannotBuild, closeGitHost } from "../harness.ts";

export let site: Bench;

/** Removes the site of each test. */
export function onOwnContent(): void {
  beforeEach(({ skip }) => skip(cannotBuild !== undefined, cannotBuild));
  afterEach(() => site?.remove());
  afterAll(closeGitHost);
}

export const post = (title: string, more = "") => `---\ntitle: ${title}\n${more}---\nText.\n`;
export const posts: Files = { "content/post/one.md": post("One"), "content/post/two.md": post("Two") };
/** These files in a folder of the repository. */
export const within = (folder: string, files: Files): Files =>
  Object.fromEntries(Object.entries(files).map(([path, entry]) => [`${folder}/${path}`, entry]));

export async function pushed(files: Files) {
  site.repository.push(files);
  site.deliver();
  return (await site.work()).last;
}
/** A site with these files published. */
export async function published(files: Files = posts, change: Change = {}): Promise<void> {
  site = await bench({ ownContent: true, ...change });
  expect(await pushed(files)).toMatchObject({ result: "published" });
}

const [hook] = rebuilt.hooks;
const { paths } = builderSettings({ ...hook!, site: { ...hook!.site!, folder: "docs" } });
export const inDocs: Change = { folder: "docs", paths };
