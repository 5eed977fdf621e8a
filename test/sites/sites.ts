/**
 * Small sites, one for each way in which sites of Hugo differ. test/service/builder has submodules, Git LFS, SHA-256 ids
 * and content outside of the repository, also by the real Hugo.
 */
import type { BuilderSettings } from "../../service/builder/settings.ts";
import type { GitHost } from "../fakes/git-host.ts";
import type { Files } from "../fakes/git-repository.ts";
import { inWorkspace, publishPackages } from "../fakes/npm-registry.ts";
import type { Chosen } from "../service/builder/build/fake-hugo.ts";
import { inDocs, pixel } from "../service/builder/hugo-site.ts";
import { moduleOf, zipOf } from "../service/fetcher/module-proxy.ts";

/** Of Hugo; `distribution` is Debian's, 0.111 or 0.131. */
type Release = "distribution" | "0.148.2" | "0.152.2" | "0.168.0";

type Terms = {
  readonly settings?: Partial<BuilderSettings>;
  readonly chosen?: Chosen;
  /** Of `site.tools`. With node `site.npm` is true. */
  readonly needs?: readonly ("node" | "sass")[];
};

export type Site = readonly [
  hugo: Release,
  /** Those of the repository. Hugo's configuration gets the address. */
  files: Files | ((host: GitHost) => Files),
  /** Parts of pages, by their paths. */
  shows: Readonly<Record<string, string | RegExp>>,
  terms?: Terms,
];

const toml = (text: string): Files => ({ "hugo.toml": `${text}\n` });
const home = (template: string): Files => ({ "layouts/index.html": template });
const page = (title: string, more = "", text = "Text"): string => `---\ntitle: ${title}\n${more}---\n${text}\n`;
const list = home("{{ range site.RegularPages }}{{ .Title }} {{ end }}");
const single = (template: string, text = "Text"): Files => ({
  ...home("home"),
  ...{ "layouts/_default/single.html": template, "content/a.md": page("A", "", text) },
});

const style = (filter: string): Files => ({
  ...home(`<style>{{ (resources.Get "a.scss" | ${filter}).Content | safeCSS }}</style>`),
  "assets/a.scss": "$w: 3px; a { width: 2 * $w }",
});
const dartSass = style('css.Sass (dict "transpiler" "dartsass")');

const imports = (name: string) => `[[module.imports]]\npath = "example.org/${name}"\n`;
/** Puts a module onto the proxy. Returns its lines of go.sum. */
function published({ files }: GitHost, ...given: Parameters<typeof moduleOf>): string {
  const { at, mod, entries, modSum, zipSum } = moduleOf(...given);
  files.set(`/go${at}.mod`, Buffer.from(mod)).set(`/go${at}.zip`, zipOf(entries));
  return modSum + zipSum;
}

const plugins = '{ tailwindcss: {}, autoprefixer: { overrideBrowserslist: "Safari 8" } }';
const packages = {
  "postcss.config.js": `module.exports = { plugins: ${plugins} }`,
  "tailwind.config.js": 'module.exports = { content: ["layouts/**/*.html", "_vendor/**/*.html"] }',
  "babel.config.js": 'module.exports = { plugins: ["@babel/plugin-transform-arrow-functions"] }',
  ...{ "assets/a.css": "@tailwind utilities; a { user-select: none }", "assets/a.js": "const f = () => 1;" },
};
const processed = (css: string, js = ""): string =>
  `<b class="p-4">{{ (resources.Get "a.css" | ${css} | minify).Content }}</b>` +
  (js && `{{ (resources.Get "a.js" | ${js}).Content }}`);

const formerLayouts: Files = {
  "layouts/_default/baseof.html": "<main>{{ block `main` . }}{{ end }}</main>",
  "layouts/_default/single.html": "{{ define `main` }}{{ .Content }}{{ end }}",
  "layouts/index.html": "{{ define `main` }}{{ partial `a.html` . }}{{ end }}",
  ...{ "layouts/partials/a.html": "a partial", "layouts/shortcodes/s.html": "a shortcode" },
  "content/a.md": page("A", "", "{{< s >}}"),
};
const newLayouts: Files = {
  "layouts/baseof.html": "<main>{{ block `main` . }}{{ end }}</main>",
  "layouts/page.html": "{{ define `main` }}{{ .Content }}{{ end }}",
  "layouts/home.html": "{{ define `main` }}{{ partial `a.html` . }}{{ end }}",
  ...{ "layouts/_partials/a.html": "a partial", "layouts/_shortcodes/s.html": "a shortcode" },
  "content/a.md": page("A", "", "{{< s >}}"),
};
const ofLayouts = { "index.html": "<main>a partial</main>", "a/index.html": "a shortcode" };

export const sites: Readonly<Record<string, Site>> = {
  "a folder of a workspace, with what lies beside it": [
    "0.152.2",
    {
      "apps/site/hugo.toml":
        'themesDir = "../../themes"\ntheme = "t"\n[[module.mounts]]\nsource = "../../shared"\ntarget = "assets/shared"\n',
      "themes/t/layouts/index.html": '{{ (resources.Get "shared/a.txt").Content }} by a theme beside it',
      "shared/a.txt": "shared",
    },
    { "index.html": "shared by a theme beside it" },
    { settings: { folder: "apps/site" } },
  ],
  enableGitInfo: [
    "0.148.2",
    { ...toml("enableGitInfo = true"), ...single("{{ .GitInfo.Subject }} by {{ .GitInfo.AuthorName }}") },
    { "a/index.html": "a change by A Writer" },
  ],
  "Dart Sass": ["0.148.2", dartSass, { "index.html": "a{width:6px}" }, { needs: ["sass"] }],
  "Hugo's own Sass": ["distribution", style("toCSS"), { "index.html": "a{width:6px}" }],
  "a committed _vendor": [
    "distribution",
    {
      ...toml(imports("theme")),
      "go.mod": "module example.org/site\n\ngo 1.20\n\nrequire example.org/theme v1.2.3 // indirect\n",
      "_vendor/modules.txt": "# example.org/theme v1.2.3\n",
      "_vendor/example.org/theme/layouts/index.html": "vendored",
    },
    { "index.html": "vendored" },
  ],
  "modules of modules": [
    "0.152.2",
    (host) => {
      const files = { "hugo.toml": imports("part"), "layouts/index.html": '{{ partial "p.html" . }}' };
      const part = published(host, "example.org/part", "v0.1.0", { "layouts/partials/p.html": "of its module" });
      const sums = published(host, "example.org/theme", "v1.2.3", files, "example.org/part v0.1.0");
      return { ...toml(imports("theme")), "go.mod": "require example.org/theme v1.2.3\n", "go.sum": sums + part };
    },
    { "index.html": "of its module" },
  ],
  "modules and a folder": [
    "distribution",
    (host) =>
      inDocs({
        ...toml(imports("theme/v2")),
        "go.mod": "module example.org/site\n\nrequire (\n\texample.org/theme/v2 v2.0.0-rc.1 // indirect\n)\n",
        "go.sum": published(host, "example.org/theme/v2", "v2.0.0-rc.1", { "layouts/index.html": "fetched" }),
      }),
    { "index.html": "fetched" },
    { settings: { folder: "docs" } },
  ],
  "PostCSS, Tailwind 3 and Babel": [
    "distribution",
    ({ files }) => ({
      ...{ ...publishPackages(files, "npm-three"), ...packages },
      ...home(processed("resources.PostCSS", "resources.Babel")),
    }),
    { "index.html": /padding:1rem.*-webkit-user-select.*function/s },
    { needs: ["node"] },
  ],
  "Tailwind 4": [
    "0.168.0",
    ({ files }) => ({
      ...{ ...publishPackages(files, "npm-tailwind-4"), ...home(processed("css.TailwindCSS")) },
      "assets/a.css": '@import "tailwindcss"; @source "layouts";',
    }),
    { "index.html": /tailwindcss v4.*padding:calc\(var\(--spacing\)/s },
    { needs: ["node"] },
  ],
  "modules and packages of npm": [
    "0.152.2",
    (host) => ({
      ...{ ...toml(imports("theme")), ...publishPackages(host.files, "npm-three"), ...packages },
      "go.mod": "require example.org/theme v1.2.4\n",
      "go.sum": published(host, "example.org/theme", "v1.2.4", { "layouts/index.html": processed("css.PostCSS") }),
    }),
    { "index.html": /padding:1rem.*-webkit-user-select/s },
    { needs: ["node"] },
  ],
  "packages that a module mounts": [
    "0.168.0",
    (host) => {
      const mounts = [
        ["layouts", "layouts"],
        ["node_modules/postcss", "assets/p"],
      ].map(([source, target]) => ({ source, target }));
      const files = {
        "hugo.json": JSON.stringify({ module: { mounts } }),
        "layouts/index.html": '{{ (resources.Get "p/LICENSE").Content }}',
      };
      return {
        ...{ ...toml(imports("theme")), "go.mod": "require example.org/theme v1.2.5\n" },
        "go.sum": published(host, "example.org/theme", "v1.2.5", files),
        ...inWorkspace(publishPackages(host.files, "npm-three")),
      };
    },
    { "index.html": "The MIT License" },
    { needs: ["node"] },
  ],
  "folders of other names": [
    "0.148.2",
    {
      ...toml('layoutDir = "l"\nassetDir = "a"\ndataDir = "d"\ni18nDir = "i"\nstaticDir = ["s", "s2"]'),
      "l/index.html": '{{ (resources.Get "x.txt").Content }} {{ site.Data.x.y }} {{ T "word" }}',
      ...{ "a/x.txt": "asset", "d/x.toml": 'y = "datum"\n', "i/en.toml": 'word = "word"\n', "s2/z.txt": "static" },
    },
    { "index.html": "asset datum word", "z.txt": "static" },
  ],
  mounts: [
    "0.168.0",
    {
      ...toml(
        '[module]\nmounts = [{ source = "docs", target = "content/b" }, { source = "content", target = "content" }]',
      ),
      ...{ ...single("{{ .Title }}"), "docs/c.md": page("C of docs") },
    },
    { "b/c/index.html": "C of docs", "a/index.html": "A" },
  ],
  "several languages": [
    "0.168.0",
    {
      ...toml('[languages.en]\nweight = 1\n[languages.de]\nweight = 2\ncontentDir = "content/de"\ntitle = "Titel"'),
      ...home('{{ site.Title }} {{ T "word" }} {{ range site.RegularPages }}{{ .Title }}{{ end }}'),
      ...{ "i18n/de.toml": 'word = "Wort"\n', "content/de/b.md": page("B") },
    },
    { "de/index.html": "Titel Wort B" },
  ],
  "another baseURL": [
    "distribution",
    home("{{ site.BaseURL }}"),
    { "index.html": "https://other.example.org/below/" },
    { chosen: { baseUrl: "https://other.example.org/below/" } },
  ],
  "an environment, and a configuration of several files": [
    "0.168.0",
    {
      ...home("{{ site.Params.where }} {{ hugo.Environment }} {{ site.Title }}"),
      ...{ "config/staging/params.toml": 'where = "there"\n', "config/_default/hugo.yaml": "title: Title\n" },
    },
    { "index.html": "there staging Title" },
    { chosen: { environment: "staging" } },
  ],
  arguments: [
    "0.148.2",
    {
      ...toml('disableKinds = ["taxonomy", "term"]'),
      ...{ ...single("x"), ...list, "content/b.md": page("Future", "date: 2999-01-01\n") },
    },
    { "index.html": "Future A" },
    { chosen: { arguments: ["--buildFuture", "--panicOnWarning"] } },
  ],
  "a variable": [
    "distribution",
    { ...toml('[params]\nstage = "of the site"'), ...home("{{ site.Params.stage }}") },
    { "index.html": "set from outside" },
    { chosen: { variables: { HUGO_PARAMS_STAGE: "set from outside" } } },
  ],
  "a content adapter": [
    "0.152.2",
    {
      ...{ ...single("x"), ...list },
      "content/b/_content.gotmpl":
        '{{ range seq 3 }}{{ $.AddPage (dict "path" . "title" (print "Made " .)) }}{{ end }}',
    },
    { "index.html": "A Made 1 Made 2 Made 3" },
  ],
  "layouts of 0.146": ["0.168.0", newLayouts, ofLayouts],
  "layouts of before 0.146": ["distribution", formerLayouts, ofLayouts],
  "layouts of before 0.146, on a later Hugo": ["0.168.0", formerLayouts, ofLayouts],
  images: [
    "distribution",
    {
      ...home(
        '{{ with (resources.Get "a.png").Resize "3x2 webp" }}{{ .Width }}x{{ .Height }} {{ .MediaType }}{{ end }}',
      ),
      "assets/a.png": pixel,
    },
    { "index.html": "3x2 image/webp" },
  ],
  "render hooks": [
    "0.168.0",
    {
      ...single("{{ .Content }}", "# Head\n\n[link](https://x.example)\n\n```mermaid\na\n```"),
      "layouts/_default/_markup/render-link.html": "<a class=hook href={{ .Destination }}>{{ .Text }}</a>",
      "layouts/_default/_markup/render-codeblock-mermaid.html": "<pre class=mermaid>{{ .Inner }}</pre>",
    },
    { "a/index.html": /<a class=hook href=https:\/\/x\.example>link<\/a>.*<pre class=mermaid>a/s },
  ],
  "taxonomies, aliases and a robots.txt": [
    "distribution",
    {
      ...{ ...toml('enableRobotsTXT = true\n[taxonomies]\nseries = "series"'), ...single("x") },
      "layouts/_default/list.html": "{{ .Title }}: {{ range .Pages }}{{ .Title }}{{ end }}",
      "content/b.md": page("B", "series: [one two]\naliases: [/former/]\n"),
    },
    { "series/one-two/index.html": /one two: B/i, "former/index.html": "/b/", "robots.txt": "User-agent: *" },
  ],
  "scripts by esbuild": [
    "0.152.2",
    {
      ...home('<script>{{ (resources.Get "a.ts" | js.Build).Content | safeJS }}</script>'),
      ...{ "assets/a.ts": 'import { b } from "./b";\nconsole.log(b);', "assets/b.ts": 'export const b = "bundled";' },
    },
    { "index.html": "bundled" },
  ],
  "data and other formats": [
    "0.168.0",
    {
      ...toml('[outputs]\nhome = ["html", "rss", "json"]'),
      ...{ ...single("x"), "assets/a.csv": "a,1\nb,2\n" },
      "layouts/index.json": '{"pages":{{ len site.RegularPages }}}',
      ...home('{{ range (resources.Get "a.csv" | transform.Unmarshal) }}{{ index . 1 }};{{ end }}'),
    },
    { "index.html": "1;2;", "index.json": '{"pages":1}', "index.xml": "<title>A</title>" },
  ],
};
