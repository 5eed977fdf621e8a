/**
 * Releases of real programs that a site names, from a mirror, and a module and packages of npm: a build has them, and what
 * no site names any more is removed. A release that is damaged or not to be had is in test/infra/host/tools.test.ts.
 */
import { beforeEach, expect, test } from "vitest";
import type { ToolName } from "../../../infra/config/tools.ts";
import { paths } from "../../../infra/host/paths.ts";
import { inWorkspace, publishPackages } from "../../fakes/npm-registry.ts";
import { moduleOf, zipOf } from "../../service/fetcher/module-proxy.ts";
import { until } from "../lab/process.ts";
import { noArchives, releaseArchive } from "../lab/release-archives.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, siteFiles } from "./site.ts";
import { awaitStatus } from "./status.ts";
import { mirror, mirrored, type Rebuild } from "./world.ts";

beforeEach(({ skip }) => skip(noArchives !== undefined, noArchives));
let rebuild: Rebuild;
if (noArchives === undefined) rebuild = await deployedRebuild("tools");

const release = (tool: ToolName, version: string) =>
  mirrored(rebuild, tool, version, releaseArchive(`${tool}-${version}`));
const installed = () => rebuild.host.read(`ls ${paths.tools} 2>/dev/null || :`);
/** Waits for a build for other tools, which no push triggered. */
const anew = () =>
  awaitStatus(
    rebuild.host,
    "it is built anew",
    ({ last: { result, reason } }) =>
      result === "published" && reason.startsWith("site.hugo, site.npm or site.tools was another"),
  );
/** Of a proxy of Go modules at the same place. */
const theme = moduleOf("example.org/theme", "v1.0.0", { "layouts/partials/module.html": "of-a-module" });
const registries = { go: "https://git.example.net/modules" };
const layout = (mark: string) => front(`${mark} built-with-{{ hugo.Version }}`);

test("up installs the releases of one site from the mirror and builds it anew without a push; the other keeps the distribution's", async () => {
  const sass =
    '{{ (resources.Get "a.scss" | css.Sass (dict "transpiler" "dartsass" "outputStyle" "compressed")).Content }}';
  await rebuild.push({ "layouts/index.html": layout("docs") }, "docs");
  const { files } = rebuild.git;
  files.set(`/modules${theme.at}.mod`, Buffer.from(theme.mod)).set(`/modules${theme.at}.zip`, zipOf(theme.entries));
  rebuild.repositories.site.push({
    "layouts/index.html": `${layout("site")}{{ partial "module.html" . }}${sass}`,
    "hugo.toml": `${siteFiles()["hugo.toml"]}[[module.imports]]\npath = "example.org/theme"\n`,
    ...{ "go.mod": "module site\nrequire example.org/theme v1.0.0\n", "go.sum": theme.modSum + theme.zipSum },
    "assets/a.scss": "$w: 3px; a { width: 2 * $w }",
  });
  const tools = { hugo: release("hugo", "0.148.2"), sass: release("sass", "1.89.2") };
  rebuild.configure("site", { mirror, registries, tools });
  const preview = await rebuild.world.stack.preview();
  expect(preview.stdout).toContain("  tools  downloads and installs hugo-0.148.2, sass-1.89.2 below");
  await rebuild.up();
  await anew();
  const { body } = await rebuild.visit();
  for (const words of ["built-with-0.148.2", "a{width:6px}", "of-a-module"]) expect(body).toContain(words);
  expect((await rebuild.visit("/", "docs")).body).toMatch(/built-with-0\.1[13]1\./);
  expect(await installed()).toBe("hugo-0.148.2\nhugo-0.148.2.record\nsass-1.89.2\nsass-1.89.2.record");
  expect((await rebuild.world.stack.preview("--expect-no-changes")).code).toBe(0);
});

// sites.slow.test.ts has these sites without the sandboxes of the units.
test("PostCSS, Tailwind 3 and Babel of packages make a site by the distribution's Hugo, and Tailwind 4 by a later one", async () => {
  const { git, repositories } = rebuild;
  const npm = { npm: true, registries: { npm: "https://git.example.net" }, mirror };
  const node = release("node", "24.21.0");
  const made = (css: string, js = "") =>
    `{{ (resources.Get "a.css" | ${css}).Content }}${js && `{{ (resources.Get "a.js" | ${js}).Content }}`}`;
  const page = (text: string) => ({ "layouts/index.html": `<b class="p-4">${text}</b> built-with-{{ hugo.Version }}` });
  const shown = (...texts: string[]) => {
    const isThere = async () => {
      const { body } = await rebuild.visit();
      return texts.every((text) => body.includes(text)) || undefined;
    };
    return until(`the page has ${texts}`, isThere, { timeout: 90_000 });
  };
  repositories.site.push({
    ...{ ...siteFiles(), "go.mod": null, "go.sum": null, ...inWorkspace(publishPackages(git.files, "npm-three")) },
    "postcss.config.js": `module.exports = { plugins: { tailwindcss: {}, autoprefixer: { overrideBrowserslist: "Safari 8" } } }`,
    "tailwind.config.js": `module.exports = { content: ["layouts/**/*.html"] }`,
    "babel.config.js": `module.exports = { plugins: ["@babel/plugin-transform-arrow-functions"] }`,
    "assets/a.css": "@tailwind utilities; a { user-select: none }",
    "assets/a.js": "const f = () => 1;",
    ...page(made("resources.PostCSS", "resources.Babel")),
  });
  rebuild.configure("site", { ...npm, tools: { node } });
  await rebuild.up();
  await shown("built-with-0.1", "-webkit-user-select", "padding: 1rem", "function");
  expect(await installed()).toBe("node-24.21.0\nnode-24.21.0.record");

  rebuild.configure("site", { ...npm, tools: { node, hugo: release("hugo", "0.168.0") } });
  await rebuild.up();
  await rebuild.push({
    ...publishPackages(git.files, "npm-tailwind-4"),
    "assets/a.css": '@import "tailwindcss"; @source "layouts";',
    ...page(made("css.TailwindCSS")),
  });
  await shown("built-with-0.168.0", "tailwindcss v4.1.11", "padding: calc(var(--spacing) * 4)");
});
