/** What is proposed for a repository. */
import { expect, test } from "vitest";
import { targetsOf } from "../../../../infra/cli/stack/repository/makefile.ts";
import { findingsOf } from "../../../../infra/cli/stack/repository/propose.ts";

type Texts = Readonly<Record<string, string>>;
const filesOf = (texts: Texts, links: Texts = {}) => ({
  ...{ texts: new Map(Object.entries(texts)), links: new Map(Object.entries(links)) },
});
const lines = (found: ReturnType<typeof findingsOf>) =>
  found.map(({ key, value, says }) =>
    key ? `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}` : says,
  );

/**
 * A name, files with their texts, and after "=" the keys and values, with the reason or without, or how a sentence begins.
 * The first rows are what public sites have in these files, shortened.
 */
const sites = String.raw`
google/docsy-example
hugo.yaml enableGitInfo: true\nmodule: { imports: [{ path: github.com/google/docsy/theme }] }
go.mod require github.com/google/docsy/theme v0.16.0 // indirect
go.sum
netlify.toml [build]\ncommand = "npm run build:preview"\n[context.production]\ncommand = "npm run build:production"
package.json {"scripts":{"_hugo":"hugo --cleanDestinationDir","build:preview":"npm run _hugo -- -DFE","build:production":"npm run _hugo -- --minify"},"devDependencies":{"hugo-extended":"0.164.0"},"workspaces":["packages/hugoautogen"]}
= tools.hugo: 0.164.0; package.json has packages for Hugo modules, but no lock file. If Hugo runs them: hugo mod npm pack && npm install --package-lock-only, and commit packages; Hugo modules: nothing to set, they are fetched; enableGitInfo: nothing

CaiJimmy/hugo-theme-stack-starter
config/_default/config.toml
config/_default/module.yml imports: [{ path: github.com/CaiJimmy/hugo-theme-stack/v4 }]
.github/workflows/deploy.yml jobs: { build: { env: { DART_SASS_VERSION: 1.97.1, HUGO_VERSION: 0.154.2 }, steps: [{ uses: peaceiris/actions-hugo@v3, with: { hugo-version: latest } }, { run: 'hugo --gc --baseURL "$\{{ steps.pages.outputs.base_url }}/" --cacheDir x-D' }] } }
= tools.hugo: {"least":"0"}; tools.sass: 1.97.1; Hugo modules: go.sum is missing; hugo.arguments: --gc

letsencrypt/website
config/_default/hugo.toml baseURL = "https://letsencrypt.org/"
netlify.toml [build]\ncommand = "hugo -D -F -d public"\n[build.environment]\nHUGO_VERSION = "0.162.0"\nNODE_VERSION = "24.5.0"
package.json {"devDependencies":{"@tailwindcss/cli":"^4.1.16"}}
package-lock.json
= tools.hugo: 0.162.0; tools.node: 24.5.0; npm: true; hugo.arguments: --buildDrafts; hugo.arguments: --buildFuture

2i2c-org/2i2c-org.github.io
config/_default/hugo.yaml enableGitInfo: false
netlify.toml [build]\ncommand = "python scripts/logos.py && hugo --gc -b $URL"\n[build.environment]\nHUGO_VERSION = "0.125.3"\nHUGO_ENABLEGITINFO = "true"\n[context.deploy-preview]\ncommand = "hugo --buildFuture"
= tools.hugo: 0.125.3; enableGitInfo: set it in Hugo's; hugo.arguments: --gc; netlify.toml also runs ${"`"}python scripts/logos.py${"`"}, and

18F/guides-and-methods-hugo
config.yml theme: guides
.hugo-version extended_0.104.3\n
= tools.hugo: 0.111.3

SubaruLenz/Personal-Website
config/_default/hugo.toml
amplify.yml env: { variables: { DART_SASS_VERSION: 1.89.2, HUGO_VERSION: 0.141.0 } }
.github/workflows/gh-pages.yml jobs: { x: { steps: [{ with: { hugo-version: latest } }] } }
= tools.hugo: 0.141.0; tools.sass: 1.89.2

alex-shpak/hugo-book
hugo.toml [module.hugoVersion]\nmin = "0.158.0"
exampleSite/hugo.toml baseURL = "x"
.github/workflows/deploy.yml steps: [{ with: { hugo-version: 0.158.0 } }, { working-directory: exampleSite, run: 'hugo --themesDir ../.. --baseURL="https://book.alxs.dev/"' }]
.github/workflows/main.yml hugo: { matrix: { hugo-version: [latest, 0.150.0] }, steps: [{ with: { hugo-version: "$\{{ matrix.hugo-version }}" } }] }
= folder: exampleSite; tools.hugo: 0.158.0; hugo.baseUrl: https://book.alxs.dev/; hugo.variables.HUGO_THEMESDIR: ../..; hugo.variables.HUGO_THEME: source

kubernetes/contributor-site
hugo.yaml themesDir: node_modules
package.json {"devDependencies":{"docsy":"github:google/docsy#semver:0.10.0"},"engines":{"node":"20.x"}}
package-lock.json
= no file names a release; tools.node: {"line":"20"}; npm: true; site.npm rejects what is from no registry: ${"`"}docsy

etcd-io/website
config.yaml
package.json {"devDependencies":{"docsy":"github:google/docsy#semver:0.15.0","autoprefixer":"1","postcss":"1","postcss-cli":"^11.0.0","rtlcss":"1"}}
= no file names a release; site.npm rejects what is from no registry: ${"`"}docsy; package.json has ${"`"}autoprefixer${"`"}, ${"`"}postcss${"`"}, ${"`"}postcss-cli${"`"}, but no lock file. If Hugo runs them: npm install --package-lock-only, and commit it

spiffe/spiffe.io
config.toml
layouts/partials/css.html {{ $includes := slice "node_modules" }}
package.json {"devDependencies":{"bulma":"0.9.4"},"engines":{"node":"14.x"}}
package-lock.json
netlify.toml [build]\ncommand = "pip install -r a.txt && make production-build"
Makefile HUGO ?= hugo\nproduction-build: pull $(BIN)/x config.toml # both\n\t@HUGO_ENV=production $(HUGO) \\n\t-D \\n\t--ignoreCache\npull:\n\thack/pull.py
= no file names; tools.node: {}; npm: true; hugo.arguments: --buildDrafts; hugo.arguments: --ignoreCache; hugo.variables.HUGO_ENV: production; netlify.toml also runs ${"`"}hack/pull.py${"`"}, and

0xLaurens/0xLaurens.com
config/_default/hugo.toml theme = "blowfish"
themes/blowfish/config.toml [module.hugoVersion]\nmin = "0.158.0"
themes/blowfish/config/_default/module.toml [hugoVersion]\nextended = true
= tools.hugo: {"least":"0.158.0","isLeast":true}

1984vc/website, and a script that runs itself
hugo.yaml
.github/workflows/deploy.yaml steps: [{ uses: peaceiris/actions-hugo@v2 }, { run: npm run a }]
package.json {"scripts":{"a":"npm run a && npm run a"}}
= tools.hugo: {"least":"0"}

Woodpecker
hugo.toml
.woodpecker/x.yml steps: { a: { image: hugomods/hugo:exts-0.152.2, commands: [hugo --buildFuture] } }
= tools.hugo: 0.152.2; hugo.arguments: --buildFuture

GitLab, and replaced modules
hugo.toml
go.mod require a.b/c v1.0.0\nreplace a.b/c => ../c
.gitlab-ci.yml image: registry.gitlab.com/pages/hugo/hugo_extended:0.123.4\npages: { script: [hugo -e staging] }
= tools.hugo: 0.123.4; Hugo modules: some are replaced; hugo.environment: staging

a download in a workflow of Forgejo
hugo.toml
.github/workflows/deploy-preview.yml on: { pull_request: { branches: [main] } }\na: { name: deploy, with: { hugo-version: 0.140.0 }, run: hugo -D }
.forgejo/workflows/x.yaml jobs: { a: { steps: [{ run: 'curl -LO https://x/hugo_extended_0.147.10_linux-amd64.deb' }] } }
= tools.hugo: 0.147.10

Vercel, and Render
hugo.toml
render.yaml services: [{ envVars: [{ key: SASS_VERSION, value: 1.97.1 }] }]
vercel.json {"build":{"env":{"HUGO_VERSION":"0.140","HUGO_BASEURL":"https://b.example/"}},"buildCommand":"HUGO_PARAMS_STAGE=beta hugo --config a.toml && npx pagefind"}
= tools.hugo: 0.140.0; tools.sass: 1.97.1; hugo.baseUrl: https://b.example/; hugo.variables.HUGO_PARAMS_STAGE: beta; vercel.json has ${"`"}--config${"`"}, for which; vercel.json also runs ${"`"}npx pagefind${"`"}

a site in a folder, beside a theme's example, and version managers
docs/deep/hugo.toml baseURL = "/"
docs/config.toml baseURL = "/"
docs/data/config.yaml a: 1
.example/config.toml baseURL = "/"
themes/a/exampleSite/config.toml baseURL = "/"
config.yml port: 80
.tool-versions hugo extended_0.120.4\n
mise.toml [tools]\nhugo = "0.121"
= folder: docs (${"`"}docs/config.toml${"`"}, ${"`"}docs/deep/hugo.toml${"`"} is Hugo's configuration); tools.hugo: 0.120.4 (.tool-versions has it

what is not used: a low release, lines of git, submodules that are gone, a comment and another key
hugo.toml [module.hugoVersion]\nmin = "0.100.0"
.mise.toml [tools]\nhugo = "0.121"
.node-version 20.11.1
go.mod module a // require
.gitattributes * text
.gitmodules [submodule "a"]\n\turl = git@github.com:a/b\n[submodule "b"]\n\turl = git@git.example.org:b
.github/workflows/x.yml hugo: { dry_run: hugo --buildFuture }
package.json {"devDependencies":{"autoprefixer":"1"}}
package-lock.json
= tools.hugo: 0.121.0 (.mise.toml has it); tools.node: 20.11.1 (.node-version has 20.11.1); npm: true

a container
site/hugo.toml baseURL = "x"
site/package.json {"devDependencies":{"autoprefixer":"1"}}
site/package-lock.json
Dockerfile LABEL FROM node:16\nFROM node:20.11.1 AS x\nRUN  HUGO_ENV=a  hugo  build -DF -b https://b.example/ --source ././site/
= folder: site (Dockerfile builds there); no file names; tools.node: 20.11.1 (Dockerfile has; npm: true; hugo.baseUrl: https://b.example/; hugo.arguments: --buildDrafts; hugo.arguments: --buildFuture; hugo.variables.HUGO_ENV: a

scripts of yarn, and a replaced module
docs/hugo.toml baseURL = "x"\n[module]\nreplacements = "a.b/c -> x"
docs/go.mod require a.b/c v1.0.0
netlify.toml [build]\ncommand = "cd  docs && SASS_VERSION=1.97.1 x && yarn build"\n[build.environment]\nHUGO_EXTENDED_X = "1"
docs/package.json {"scripts":{"build":"hugo --themes=a"},"devDependencies":{"autoprefixer":"1"},"engines":{"node":">=18"}}
docs/package-lock.json
= folder: docs; no file names; tools.sass: 1.97.1; tools.node: {} (docs/package.json has >=18); npm: true; Hugo modules: some are replaced; hugo.variables.HUGO_EXTENDED_X: 1; netlify.toml has ${"`"}--themes${"`"}, for

layouts of a later Hugo, and Dart Sass in one
hugo.toml
layouts/all.html {{ dict "transpiler" "dartsass" }}
= tools.hugo: {"least":"0.146.0"}; tools.sass: {}

a theme that any Hugo builds, modules in _vendor, and Git LFS
hugo.toml theme = "a"
themes/a/theme.toml min_version = "0.41"
.github/workflows/x.yml jobs: { a: { steps: [{ run: 'get $\{{ vars.HUGO_VERSION || 1 }}' }] } }
go.mod require a.b/c v1.0.0
_vendor/modules.txt
static/.gitattributes *.png filter=lfs
= no file names; Hugo modules: nothing to set, they are in _vendor; Git LFS: nothing to set

a theme with an example
exampleSite/hugo.toml baseURL = "x"
= Hugo's configuration is in no folder but in ${"`"}exampleSite/hugo.toml${"`"}. If

no site, and a file that is no TOML
netlify.toml = broken
hugo.toml.bak
= Hugo's configuration is in no folder of the repository
`;

test.each(
  sites
    .trim()
    .split("\n\n")
    .map((row) => row.split("\n")),
)("%s", (_, ...row) => {
  const files = row.slice(0, -1).map((line) => /^(\S+) ?(.*)$/.exec(line)!.slice(1));
  const texts = files.map(([path, text]) => [
    path,
    text!.replaceAll("\\n", "\n").replaceAll("\\t", "\t").replaceAll("$\\{", "${"),
  ]);
  const expected = row.at(-1)!.slice(2).split("; ");
  const all = findingsOf(filesOf(Object.fromEntries(texts)), {});
  const found = lines(all).map((line, i) => (all[i]!.key ? `${line} (${all[i]!.says})` : line));
  expect(found.map((line, i) => line.slice(0, expected[i]?.length))).toEqual(expected);
});

test("a Makefile's targets run what they need first, and files are no targets", () => {
  const makefile =
    ".PHONY: a\na: b main.go\nb:\n\t@-hugo\nA := $(B)\nB = x=y\nc: D = 1\nc : b\n\t$(MAKE) b $(A) ${E}\r\nb:\n\tlast\\\n\t\t--x";
  const b = "hugo\nlast --x";
  expect(targetsOf(makefile)).toEqual({
    ...{ make: "make b", "make .PHONY": "make a", "make a": "make b" },
    ...{ "make b": b, "make c": "make b\nmake b $(B) ${E}" },
  });
});

const repeated = (text: string) => text.repeat(99_000 / text.length);
test.each<[string, Texts]>([
  ["a script that grows", { "package.json": `{"scripts":{"a":"${repeated("hugo")}-npm run a install"}}` }],
  ["a long target", { Makefile: `a:${repeated("b")}` }],
  ["assignments in a row", { Makefile: `A=${"b".repeat(200)}\na:\n\t${repeated("$(A)")}` }],
  ["blank lines", { "go.mod": repeated("\n"), ".gitmodules": repeated("\n"), "wrangler.json": repeated("\n") }],
  ["brackets", { "vercel.json": `{"command":"hugo ${repeated("${{")}"}` }],
  ["variables", { "vercel.json": `{"A0":"${"b".repeat(50_000)}","run":"hugo ${"$A0 ".repeat(12_000)}"}` }],
])("%s is read in seconds", (_, texts) => {
  const netlify = '[build]\ncommand = "npm run a && make a"';
  const began = performance.now();
  findingsOf(filesOf({ "hugo.toml": "", "netlify.toml": netlify, ...texts }), {});
  expect(performance.now() - began).toBeLessThan(5_000);
});

test("a theme that is a submodule says its least release, and which submodules need a key", () => {
  const url = (name: string, address: string) => `[submodule "${name}"]\n\tpath = themes/${name}\n\turl = ${address}\n`;
  const modules = url("a", "git@github.com:x/a.git") + url("b", "git@git.example.org:b.git");
  const files = filesOf({ "hugo.toml": 'theme = "a"', ".gitmodules": modules }, { "themes/a": "", "themes/b": "" });
  const read = new Map([["themes/a", filesOf({ "hugo.yaml": "module: { hugoVersion: { min: 0.150.0 } }" })]]);
  expect(lines(findingsOf(files, {}, read))).toEqual([
    'tools.hugo: {"least":"0.150.0","isLeast":true}',
    "submodules over SSH: nothing to set, public ones are read over https",
    "submodules over SSH: `git@git.example.org:b.git` needs a deploy key and knownHosts",
  ]);
});

test.each([
  ['baseURL = "https://other.example.com/docs/"', ["hugo.baseUrl: https://www.example.org/"]],
  ['baseURL = "https://www.example.org/docs/"', []],
  ['baseURL = "/"', []],
  ['baseURL = "https://x/"', ["hugo.baseUrl: https://www.example.org/a/"], "https://www.example.org/a/"],
  ['baseURL = "https://www.example.org/"', [], "https://www.example.org"],
  ['baseURL = "https://x/"', ["hugo.baseUrl: https://www.example.org/"], "/"],
])("for a site at www.example.org with %s", (config, found, built?: string) => {
  const files = filesOf({ "hugo.toml": config, ...(built && { ".gitlab-ci.yml": `script: hugo -b ${built}` }) });
  expect(lines(findingsOf(files, { hostname: "www.example.org" })).slice(1)).toEqual(found);
});

test("where files disagree, the one that builds the production site counts, and the line names the others", () => {
  const texts = {
    ...{
      "hugo.toml": 'theme = ["b", "a"]',
      "themes/b/theme.toml": 'min_version = "0.157.0"',
      "themes/a/theme.toml": 'min_version = "0.158.0"',
      ".hugo-version": "0.120.0",
    },
    ".github/workflows/x.yml": "hugo: { with: { hugo-version: 0.140.0 } }",
    "netlify.toml":
      '[build.environment]\nHUGO_VERSION = "0.150.0"\n[context.production.environment]\nHUGO_VERSION = "0.152.2"',
  };
  const says = [
    ...["netlify.toml has it", ".github/workflows/x.yml has 0.140.0", ".hugo-version has 0.120.0"],
    "themes/a needs 0.158.0 or later",
  ].join("; ");
  expect(findingsOf(filesOf(texts), {})[0]).toEqual({ key: "tools.hugo", value: "0.152.2", says });
});
