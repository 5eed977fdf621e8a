/** The ranges that owners publish, from answers in the form that GitHub, Bitbucket and Cloudflare document. */
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { written } from "../../../infra/cli/stack/networks.ts";
import { compared, type Owner, ownersOf, readPublished } from "../../../infra/config/published.ts";
import { networks } from "../../../infra/networks.ts";
import { exchange } from "../../../service/exchange.ts";

vi.mock("../../../service/exchange.ts", () => ({ exchange: vi.fn() }));

/** `cidrs` as the owner's answer has them, beside what is not meant. */
const answers: Record<Owner, (cidrs: readonly string[]) => object> = {
  cloudflare: (cidrs) => ({
    result: {
      ipv4_cidrs: cidrs.filter((cidr) => cidr.includes(".")),
      ipv6_cidrs: cidrs.filter((cidr) => cidr.includes(":")),
      etag: "38f79d050aa027e3be3865e495dcc9bc",
    },
    success: true,
  }),
  githubHooks: (cidrs) => ({ hooks: cidrs, web: ["20.201.28.151/32"], actions: ["4.148.0.0/16"] }),
  bitbucketHooks: (cidrs) => ({
    items: [
      ...cidrs.map((cidr) => ({ cidr, product: ["jira", "bitbucket"], direction: ["ingress", "egress"] })),
      { cidr: "3.26.128.128/26", product: ["bitbucket"], direction: ["ingress"] },
      { cidr: "13.35.248.0/24", product: ["jira"], direction: ["egress"] },
    ],
  }),
};
const answered = (body: object | string, status = 200) =>
  vi
    .mocked(exchange)
    .mockResolvedValue({ status, headers: {}, text: typeof body === "string" ? body : JSON.stringify(body) });
const published = async (owner: Owner, cidrs: readonly string[]) => {
  answered(answers[owner](cidrs));
  return readPublished(owner, 1);
};

test.each(Object.keys(answers) as Owner[])("%s: its list is read, compared and written", async (owner) => {
  const { cidrs, source } = networks[owner];
  expect(compared(owner, await published(owner, cidrs.toReversed()))).toEqual({ missing: [], gone: [] });
  expect(exchange).toHaveBeenLastCalledWith(expect.objectContaining({ url: source }), expect.anything());

  const [first, ...rest] = cidrs;
  const changed = await published(owner, [...rest, "81.2.69.0/24", "2a02:ff80::/32"]);
  expect(compared(owner, changed)).toEqual({ missing: ["81.2.69.0/24", "2a02:ff80::/32"], gone: [first] });

  const text = readFileSync(new URL("../../../infra/networks.ts", import.meta.url), "utf8");
  expect(written(text, owner, cidrs, networks[owner].confirmed)).toBe(text);
  const made = written(text, owner, changed, "2026-12-24");
  const lines = made.split("\n").filter((line) => !text.includes(line));
  expect(lines.join("\n")).toMatch(/confirmed: "2026-12-24"[\s\S]*81\.2\.69\.0\/24[\s\S]*2a02:ff80::\/32/);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(114);
});

test.each([
  ["is empty", { hooks: [] }, "lacks more than half"],
  ["lacks more than half", { hooks: networks.githubHooks.cidrs.slice(0, 4) }, "lacks more than half"],
  ["has another form", { webhooks: [] }, "has no list where it has been"],
  ["is no JSON", "<html>", "has no list where it has been"],
  ["names no range", { hooks: [...networks.githubHooks.cidrs, "140.82.112.0/20; drop"] }, "is no range of public"],
  ["names no text", { hooks: [...networks.githubHooks.cidrs, null] }, "names null, which is no range of public"],
  ["names everything", { hooks: [...networks.githubHooks.cidrs, "0.0.0.0/0"] }, "is no range of public"],
  ["names a private range", { hooks: [...networks.githubHooks.cidrs, "10.1.0.0/16"] }, "is no range of public"],
])("an answer that %s is rejected", async (_, body, why) => {
  answered(body);
  await expect(readPublished("githubHooks", 1)).rejects.toThrow(why);
});

test("a source that does not answer, or with another status, is named", async () => {
  answered("", 403);
  await expect(readPublished("githubHooks", 1)).rejects.toThrow(
    "GitHub's ranges were not compared: https://api.github.com/meta has the status 403.",
  );
  vi.mocked(exchange).mockRejectedValue(new Error("no answer within 1 s"));
  await expect(readPublished("cloudflare", 1)).rejects.toThrow("cannot be read: no answer within 1 s.");
});

test("a stack is compared with the lists of its own git hosts", () => {
  expect(ownersOf([{ gitHost: "github" }, { gitHost: "github" }, { gitHost: "gitlab" }, { gitHost: "gitea" }])).toEqual(
    ["githubHooks"],
  );
});
