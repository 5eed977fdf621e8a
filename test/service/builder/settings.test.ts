/** What the builder starts from. test/infra/host/builder.test.ts has the files of settings that are rendered. */
import { safeParse } from "valibot";
import { expect, test } from "vitest";
import { builderSettings } from "../../../infra/host/builder/builder.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { rebuilt } from "../../fixtures.ts";

const [hook] = rebuilt.hooks;
const good = builderSettings({ ...hook!, site: hook!.site! });
const { fetcher } = good;
const registries = { ...fetcher.registries, go: "http://x.example" };

test.each<[key: string, string | undefined, object]>([
  ["none, with a newer key", undefined, { later: "a newer key" }],
  ["repository", "repository", { repository: "file:///etc" }],
  ["repository", "repository", { repository: "-https://git.example.org/x" }],
  ["branch", "branch", { branch: "-x" }],
  ["branch", "branch", { branch: "a:b" }],
  ["fetcher", "fetcher.registries.go", { fetcher: { ...fetcher, registries } }],
])("a fault in %s is found at %s: %o", (_, key, change) => {
  const { issues } = safeParse(builderShape, { ...good, ...change });
  expect(issues?.map(({ path }) => path?.map((item) => item.key).join("."))).toEqual(key && [key]);
});
