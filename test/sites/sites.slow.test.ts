/** Each site is pushed to a git host and built by the builder, with real git, npm, Hugo and its programs. */
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { noArchives, releaseFolder } from "../hosts/lab/release-archives.ts";
import { bench, cannotBuild, closeGitHost, gitHost } from "../service/builder/harness.ts";
import { sites } from "./sites.ts";

beforeEach(({ skip }) => {
  for (const reason of [cannotBuild, noArchives]) skip(reason !== undefined, reason);
});
afterAll(closeGitHost);

const programs = { sass: ["sass-1.89.2", "dart-sass"], node: ["node-24.21.0", "node/bin"] } as const;

test.each(Object.entries(sites))("a site with %s is built", async (_, [hugo, given, shows, terms = {}]) => {
  const { settings, needs = [], chosen } = terms;
  const host = await gitHost();
  const { origin } = new URL(host.url(""));
  setDefaultCACertificates([...getCACertificates(), host.ca]);
  vi.stubEnv("NODE_EXTRA_CA_CERTS", host.caFile);
  const files = typeof given === "function" ? given(host) : given;
  const configuration = join(settings?.folder ?? "", "hugo.toml");
  const addressed = `baseURL = "https://www.example.org/"\n${files[configuration] ?? ""}`;
  const node = needs.includes("node") && { node: join(releaseFolder("node-24.21.0"), "node") };
  const site = await bench({
    ...settings,
    ownContent: true,
    fetches: { registries: { go: `${origin}/go`, npm: origin }, ...node },
    ...(hugo !== "distribution" && { hugo: join(releaseFolder(`hugo-${hugo}`), "hugo") }),
    chosen: {
      ...{ ...chosen, npm: node !== false },
      programs: needs.map((tool) => join(releaseFolder(programs[tool][0]), programs[tool][1])),
      tools: Object.fromEntries(needs.map((tool) => [tool, { version: "1.0.0", amd64: "", arm64: "" }])),
    },
  });
  onTestFinished(site.remove);
  site.repository.point(site.repository.prepare({ ...files, [configuration]: addressed }, null));
  const { last } = await site.delivered();
  expect(last, last.reason).toMatchObject({ result: "published" });
  for (const [path, text] of Object.entries(shows)) expect(site.page(path)).toMatch(text);
});
