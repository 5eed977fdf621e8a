/** What of a repository makes a new site, and what of a site outlives its release, where the operator says nothing. */

const configurationNames = ["config", "hugo"].flatMap((name) =>
  ["json", "toml", "yaml", "yml"].map((form) => `${name}.${form}`),
);

/** One that ends in a slash is a folder and everything below it; `*` stands for anything within a segment. Sorted. */
export const buildPaths: readonly string[] = [
  "_vendor/",
  "archetypes/",
  "assets/",
  "bin/deploy*",
  "config/",
  ...configurationNames,
  "data/",
  "deploy*",
  "go.mod",
  "go.sum",
  "i18n/",
  "layouts/",
  "package.hugo.json",
  "scripts/deploy*",
  "static/",
  "themes/",
  ".gitmodules",
].sort();

/** What a page refers to. Pages themselves are not in it: one that was taken away is gone at once. */
export const assetExtensions: readonly string[] = [
  "avif",
  "css",
  "eot",
  "gif",
  "ico",
  "jpeg",
  "jpg",
  "js",
  "map",
  "mjs",
  "otf",
  "png",
  "svg",
  "ttf",
  "wasm",
  "webp",
  "woff",
  "woff2",
];
