/** The table of git hosts, and a delivery for each git host that the receiver verifies. */
import { describe, expect, test } from "vitest";
import { type GitHostName, gitHosts, verifiedGitHosts } from "../../../service/git-hosts/index.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { receiver } from "./harness.ts";

const all = Object.entries(gitHosts);

test("each row has the name of its module", () => {
  for (const [name, gitHost] of all) expect(gitHost.name).toBe(name);
});

test("the git hosts that publish their ranges have loopback ports of their own, below those of the other sockets", () => {
  const ports = all.flatMap(([, { publishedPort }]) => publishedPort ?? []);
  expect(new Set(ports).size).toBe(ports.length);
  for (const port of ports) expect(port > 9460 && port < 9470).toBe(true);
  expect(gitHosts).toMatchObject({
    github: { publishedPort: 9461 },
    gitlab: { publishedPort: 9462 },
    bitbucket: { publishedPort: 9463 },
  });
});

test("all header names are in lower case, as Node and Cloudflare's rules find them", () => {
  for (const [, { signatures, deliveryHeader }] of all)
    for (const name of [deliveryHeader, ...signatures.map(({ header }) => header)])
      expect(name).toBe(name.toLowerCase());
});

test("the receiver verifies GitHub, Gitea and Forgejo", () => {
  expect(verifiedGitHosts).toEqual(["github", "gitea", "forgejo"]);
});

describe("for a hook of", () => {
  test.each(verifiedGitHosts)("%s the receiver accepts a signed push and rejects an unsigned one", async (gitHost) => {
    const running = await receiver({ hooks: [{ name: "site", gitHost, branch: "main" }] });
    const sent = delivery();
    expect((await running.send(delivery({ signature: null }))).status).toBe(401);
    expect((await running.send(sent)).status).toBe(202);
    expect(running.journal[1]?.delivery).toBe(sent.headers[gitHosts[gitHost].deliveryHeader]);
    await running.stop();
  });

  const others = (Object.keys(gitHosts) as GitHostName[]).filter((name) => !verifiedGitHosts.includes(name));
  test.each(others)("%s the receiver accepts nothing, although settings.ts rejects such a hook", async (gitHost) => {
    const running = await receiver({ hooks: [{ name: "site", gitHost, branch: "main" }] });
    const deliveries = [delivery(), delivery({ headers: { "x-gitlab-token": secrets.site.current } })];
    for (const sent of deliveries) expect((await running.send(sent)).status).toBe(500);
    expect(running.spooled()).toEqual([]);
    await running.stop();
  });
});
