/** A small Hugo site: layouts, one asset that is renamed with each revision, and content outside the repository. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Files } from "../../fakes/git-repository.ts";

/** What each page of a revision says of itself, and the asset it refers to. */
export const says = (revision: number): string => `revision ${revision}`;
const asset = (revision: number): string => `app.${revision}.css`;

const page = (revision: number, body: string): string =>
  `<!doctype html><html><head><link rel="stylesheet" href="/${asset(revision)}"></head>` +
  `<body><p>${says(revision)}</p>${body}</body></html>\n`;

const configuration = `baseURL = "https://www.example.org/"
title = "Site"
disableKinds = ["taxonomy", "term", "RSS", "sitemap"]
`;

/** What git has in place of a file that Git LFS keeps, and the text that has its program bring it. */
export const attributes = { ".gitattributes": "*.png filter=lfs diff=lfs merge=lfs -text\n" };
export const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 9\n`;

export const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** The repository's files at a revision, to be pushed onto the one before. */
export const siteFiles = (revision: number): Files => ({
  "hugo.toml": configuration,
  "layouts/index.html": page(
    revision,
    '{{ range .Site.RegularPages }}<a href="{{ .RelPermalink }}">{{ .Title }}</a>{{ end }}',
  ),
  "layouts/_default/single.html": page(revision, "{{ .Content }}"),
  "layouts/_default/list.html": page(revision, "{{ .Title }}"),
  "static/logo.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>\n',
  [`static/${asset(revision)}`]: `body{--revision:${revision}}\n`,
  ...(revision > 1 && { [`static/${asset(revision - 1)}`]: null }),
});

export const inDocs = (files: Files): Files =>
  Object.fromEntries(Object.entries(files).map(([path, entry]) => [`docs/${path}`, entry]));

/** Three pages of content. Hugo makes a home page and a list beside them. */
export function writeContent(folder: string): void {
  mkdirSync(join(folder, "post"), { recursive: true });
  for (const index of [0, 1, 2]) writePage(folder, index);
}

export function writePage(folder: string, index: number, text = `Text of page ${index}.`): void {
  writeFileSync(join(folder, "post", `${index}.md`), `---\ntitle: Page ${index}\n---\n${text}\n`);
}
