/**
 * A site that has the number of its push, the mark, in each file of a release. A check finds a release with a file of
 * another push, a truncated file or a missing one.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Files } from "../../fakes/git-repository.ts";
import type { Host } from "../lab/host.ts";
import { placesOf } from "./site.ts";

/** The number of assets: enough that writing a release takes a moment. */
const assets = 40;

/** The files of a push. Every asset has a different name in each push, and every page refers to all assets. */
export function markedFiles(mark: number, former?: number): Files {
  const links = Array.from({ length: assets }, (_, i) => `<link rel="stylesheet" href="/a/${nameOf(i, mark)}">`).join(
    "\n",
  );
  const html = `<!doctype html>\n<title>mark-${mark}</title>\n${links}\n{{ range .Site.RegularPages }}<a href="{{ .RelPermalink }}">.</a>{{ end }}\n<p>end-${mark}</p>\n`;
  const each = (of: number, text: string | null) =>
    Object.fromEntries(
      Array.from({ length: assets }, (_, i) => [
        `static/a/${nameOf(i, of)}`,
        text && `/* ${text} ${"x".repeat(2_000)} */\n`,
      ]),
    );
  return {
    ...(former !== undefined && each(former, null)),
    ...each(mark, `mark-${mark}`),
    "layouts/index.html": html,
    "layouts/_default/single.html": html,
    "layouts/_default/list.html": html,
  };
}

const nameOf = (index: number, mark: number) => `style-${index}-${mark}.css`;

export const markOf = (html: string): number | undefined => {
  const [, mark] = /mark-(\d+)/.exec(html) ?? [];
  return mark !== undefined && html.includes(`end-${mark}`) ? Number(mark) : undefined;
};

/** The paths that a page refers to. */
export const linksOf = (html: string): string[] =>
  [...html.matchAll(/href="?([^"> ]+)/g)].map(([, path]) => path!.replace(/^https?:\/\/[^/]+/, ""));

/** The mark of the release that `current` points to. Throws unless that release is complete and of one push. */
export function wholeRelease(host: Host): number {
  const { site } = placesOf("site");
  const folder = join(host.root, site, readlinkSync(join(host.root, site, "current")));
  const pages = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".html"));
  const marks = pages.map((path) => markOf(readFileSync(join(folder, path), "utf8")));
  const [mark] = marks;
  if (mark === undefined || marks.some((one) => one !== mark))
    throw new Error(`${folder}: pages are truncated or of several pushes: ${marks}`);
  for (let i = 0; i < assets; i++) {
    const text = readFileSync(join(folder, "a", nameOf(i, mark)), "utf8");
    if (!text.includes(`mark-${mark} `) || (!text.endsWith("*/\n") && !text.endsWith("*/")))
      throw new Error(`${folder}/a/${nameOf(i, mark)}: ${text.length} characters, not the text that was pushed`);
  }
  return mark;
}
