/** What the installed Hugo makes of the arguments and the variables that outrank a site's configuration. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { ownVariables } from "../../../infra/config/site-checks.ts";
import { buildArguments, environment } from "../../../infra/host/builder/hugo.ts";
import { type Chosen, plainHugo } from "../../service/builder/build/fake-hugo.ts";
import { cannotBuild } from "../../service/builder/harness.ts";
import { Root } from "./namespace.ts";

beforeEach(({ skip }) => skip(cannotBuild !== undefined, cannotBuild));

/** Builds a site with these files. Returns what Hugo printed and the front page. */
function built(files: Readonly<Record<string, string>>, chosen: Chosen) {
  const root = new Root();
  const at = { destination: root.at("out"), cache: root.at("cache") };
  for (const [path, text] of Object.entries(files)) root.write(join("source", path), text);
  const hugo = { ...plainHugo, ...chosen };
  const env = { PATH: process.env.PATH, ...environment(at, { hugo, npm: false, tools: {} }) };
  const how = { cwd: root.at("source"), env, encoding: "utf8" } as const;
  const { stdout, stderr } = spawnSync("hugo", buildArguments(hugo.arguments), how);
  return { said: stdout + stderr, front: () => readFileSync(root.at("out/index.html"), "utf8") };
}

test("the operator's address, environment, flags and variables outrank the site's", () => {
  const { said, front } = built(
    {
      "hugo.toml": 'baseURL = "https://own.example/a/"\n[params]\nwho = "own"\n',
      "config/staging/params.toml": 'where = "staging"\n',
      "layouts/index.html":
        '{{ .Permalink }} {{ site.Params.who }} {{ site.Params.where }} {{ getenv "HUGO_ENV" }}{{ range site.RegularPages }} {{ .Title }}{{ end }}',
      "layouts/_default/single.html": "{{ .Title }}",
      "content/a.md": "---\ntitle: draft\ndraft: true\n---\n",
    },
    {
      ...{ baseUrl: "https://www.example.org/b/", environment: "staging" },
      ...{ arguments: ["--buildDrafts"], variables: { HUGO_PARAMS_WHO: 'a "b"', HUGO_ENV: "e" } },
    },
  );
  expect(said).not.toMatch(/^(ERROR|Error)/m);
  expect(front()).toBe('https://www.example.org/b/ a "b" staging e draft');
});

test("no variable of the operator's is one of pushgate's", () => {
  const site = { hugo: { ...plainHugo, baseUrl: "x" }, npm: false, tools: {} };
  const names = Object.keys(environment({ content: "/c", destination: "/d", cache: "/e" }, site));
  expect(names.filter((name) => !ownVariables.test(name))).toEqual([]);
});

const own = '[security.http]\nurls = [".*"]\n';
test.each([
  ["another URL", "", "https://b.invalid/"],
  ["another URL, and the site opens all", own, "https://b.invalid/"],
  ["the URL", "", "http://127.0.0.1:1/"],
  ["the URL, and the site opens all", own, "http://127.0.0.1:1/"],
])("a build reads what one of two policies allows, and nothing else: %s", (name, configuration, url) => {
  const layout = `{{ with resources.GetRemote "${url}" }}{{ .Err }}{{ .Content }}{{ end }}`;
  const { said } = built(
    { "hugo.toml": configuration, "layouts/index.html": layout },
    { http: ["^x #: y$", "^http://127\\.0\\.0\\.1:1/$"] },
  );
  expect(said).toContain(name.startsWith("another") ? "access denied" : "connection refused");
});
