/** What a rendered file of settings must be. test/infra/host/builder.test.ts has those that are rendered. */
import { safeParse } from "valibot";
import { expect, test } from "vitest";
import { builderSettings } from "../../../infra/host/builder/builder.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { rebuilt } from "../../fixtures.ts";

const [hook] = rebuilt.hooks;
const good = builderSettings({ ...hook!, site: hook!.site! });
const { limits } = good;

test.each<[key: string, string | undefined, object]>([
  ["none, with a newer key", undefined, { later: "a newer key" }],
  ["repository", "repository", { repository: "file:///etc" }],
  ["repository", "repository", { repository: "-https://git.example.org/x" }],
  ["branch", "branch", { branch: "-x" }],
  ["branch", "branch", { branch: "a:b" }],
  ["folders", "folders.0", { folders: [""] }],
  ["site", "site", { site: "relative" }],
  ["generator", "generator.socket", { generator: { result: "/result" } }],
  [
    "fetcher",
    "fetcher.registries.go",
    { fetcher: { ...good.fetcher, registries: { ...good.fetcher.registries, go: "http://x.example" } } },
  ],
  ["limits", "limits.seconds", { limits: { ...limits, seconds: 0 } }],
])("a fault in %s is found at %s: %o", (_, key, change) => {
  const { issues } = safeParse(builderShape, { ...good, ...change });
  expect(issues?.map(({ path }) => path?.map((item) => item.key).join("."))).toEqual(key && [key]);
});
