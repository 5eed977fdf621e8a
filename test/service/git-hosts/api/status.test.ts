/** How the result of a build is set at each git host. */
import { expect, test } from "vitest";
import { statusRequest } from "../../../../service/git-hosts/api/api.ts";
import { apis } from "../../../../service/git-hosts/api/index.ts";
import { type GitHostName, gitHostNames } from "../../../../service/git-hosts/index.ts";
import { repositoryOf } from "../../../../service/git-hosts/repository.ts";

const commit = "a".repeat(40);
const result = { commit, state: "failure", reason: "Hugo failed.", context: "pushgate/web1/site" } as const;
const url = "https://www.example.org/";
const at = (name: GitHostName, repository: string, more: object = {}) =>
  statusRequest(apis[name], repositoryOf(repository), { ...result, ...more }, "the-token")!;

test.each([
  ["https://git.example.net:3000/a/b/c", "https://git.example.net:3000", ["a", "b", "c"]],
  ["https://git.example.net/a/b//", "https://git.example.net", ["a", "b"]],
  ["https://github.com/example/example.github.io", "https://github.com", ["example", "example.github.io"]],
  ["ssh://git@git.example.net:2222/a/b.git", "https://git.example.net", ["a", "b"]],
  ["git@git.example.net:a/b.git", "https://git.example.net", ["a", "b"]],
  ["git@git.example.net:/a/b.git", "https://git.example.net", ["a", "b"]],
])("the API of %s is at %s", (address, origin, names) => {
  expect(repositoryOf(address)).toMatchObject({ origin, names });
});

// answers.test.ts has where each API is.
test.each<[GitHostName, string]>([
  ["github", `https://api.github.com/repos/a/b/statuses/${commit}`],
  ["github-enterprise", `https://git.example.net/api/v3/repos/a/b/statuses/${commit}`],
  ["gitlab", `https://git.example.net/api/v4/projects/a%2Fb/statuses/${commit}`],
  ["gitea", `https://git.example.net/api/v1/repos/a/b/statuses/${commit}`],
  ["bitbucket", `https://api.bitbucket.org/2.0/repositories/a/b/commit/${commit}/statuses/build`],
  ["bitbucket-data-center", `https://git.example.net/rest/api/latest/projects/a/repos/b/commits/${commit}/builds`],
])("%s: the result of a commit goes to its API, with the token in the headers alone", (name, to) => {
  const { url, headers, body } = at(name, "https://git.example.net/a/b.git");
  expect([url, headers]).toEqual([to, apis[name]!.authorization("the-token")]);
  expect(JSON.stringify(body)).not.toContain("the-token");
});

test.each<[GitHostName, readonly [string, string, string]]>([
  ["github", ["pending", "success", "failure"]],
  ["gitlab", ["running", "success", "failed"]],
  ["bitbucket", ["INPROGRESS", "SUCCESSFUL", "FAILED"]],
  ["bitbucket-data-center", ["INPROGRESS", "SUCCESSFUL", "FAILED"]],
])("%s has names of its own for the states: %o", (name, names) => {
  const states = (["pending", "success", "failure"] as const).map(
    (state) => at(name, "https://git.example.net/example/site.git", { state }).body.state,
  );
  expect(states).toEqual(names);
});

test("the body has the reason, the build's name and the site's URL; Bitbucket needs one, and gets the commit's page", () => {
  const repository = "https://git.example.net/example/site.git";
  const described = { description: "Hugo failed.", target_url: url };
  expect(at("github", repository, { url }).body).toEqual({ state: "failure", context: result.context, ...described });
  expect(at("gitea", repository, { url }).body).toEqual({ state: "failure", context: result.context, ...described });
  expect(at("gitlab", repository, { url }).body).toEqual({ state: "failed", name: result.context, ...described });
  expect(at("github", repository).body.target_url).toBeUndefined();
  const ofBitbucket = at("bitbucket", repository, { url }).body;
  expect(ofBitbucket).toMatchObject({ name: result.context, description: "Hugo failed.", url });
  expect(ofBitbucket.key).toMatch(/^pushgate-[0-9a-f]{16}$/);
  expect(at("bitbucket", repository, { context: "another" }).body.key).not.toBe(ofBitbucket.key);
  expect(at("bitbucket", repository).body.url).toBe(`https://bitbucket.org/example/site/commits/${commit}`);
  expect(at("bitbucket-data-center", "ssh://git@git.example.net:7999/proj/site.git").body.url).toBe(
    `https://git.example.net/projects/proj/repos/site/commits/${commit}`,
  );
});

test("a reason is cut where the API takes no more, by characters", () => {
  for (const name of gitHostNames) {
    if (apis[name]?.status === undefined) continue;
    const longest = name.startsWith("github") ? 140 : 255;
    const of = (characters: number) => {
      const reason = "\u{1f41f}".repeat(characters);
      return at(name, "https://git.example.net/example/site.git", { reason }).body.description!;
    };
    expect(of(longest)).not.toContain("…");
    const description = of(longest + 1);
    expect([...description]).toHaveLength(longest);
    expect(description).toMatch(/\u{1f41f}…$/u);
  }
});

test("Gogs and senders that hold no repository have no API for results", () => {
  const without = gitHostNames.filter((name) => apis[name]?.status === undefined);
  expect(without).toEqual(["gogs", "standard-webhooks"]);
  for (const name of without)
    expect(statusRequest(apis[name], repositoryOf("https://x.example/a/b"), result, "t")).toBeUndefined();
});
