/** The table of git hosts agrees with the source ranges in networks.ts. */
import { expect, test } from "vitest";
import { networks } from "../../../infra/networks.ts";
import { gitHostNames, gitHosts } from "../../../service/git-hosts/index.ts";

test("networks.ts has the source ranges of each git host with a port of its own, and of no other", () => {
  const withPort = gitHostNames.filter((name) => gitHosts[name].publishedPort !== undefined);
  const inNetworks = Object.keys(networks).flatMap((key) => /^(\w+)Hooks$/.exec(key)?.[1] ?? []);
  expect(inNetworks.sort()).toEqual([...withPort].sort());
  expect(new Set(withPort.map((name) => gitHosts[name].publishedPort)).size).toBe(withPort.length);
});
