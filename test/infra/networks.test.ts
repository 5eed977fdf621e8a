/** networks.ts is well-formed, sorted, without overlaps, and the only file with addresses. */
import { globSync, readFileSync } from "node:fs";
import { overlapCidr } from "cidr-tools";
import { expect, test } from "vitest";
import { compare, rangeFault } from "../../infra/config/cidr.ts";
import { networks } from "../../infra/networks.ts";

const root = new URL("../..", import.meta.url).pathname;

test.each(Object.entries(networks))("%s is sorted, has no overlaps, and names its source and its day", (_, network) => {
  const { source, confirmed, cidrs } = network;
  expect(cidrs.map(rangeFault).filter(Boolean)).toEqual([]);
  expect([...cidrs].sort(compare)).toEqual(cidrs);
  const pairs = cidrs.flatMap((a, i) => cidrs.slice(i + 1).map((b) => [a, b] as const));
  expect(pairs.filter(([a, b]) => overlapCidr(a, b))).toEqual([]);
  expect(new URL(source).protocol).toBe("https:");
  expect(confirmed).toMatch(/^20\d\d-\d\d-\d\d$/);
});

// nginx takes the real address from a peer in Cloudflare's ranges, so a git host in them could name any source.
test("no git host's range overlaps Cloudflare's", () => {
  const { cloudflare, ...gitHosts } = networks;
  const inside = Object.values(gitHosts).flatMap(({ cidrs }) =>
    cidrs.filter((cidr) => overlapCidr([...cloudflare.cidrs], cidr)),
  );
  expect(inside).toEqual([]);
});

test("no other file under infra or service holds an address", () => {
  const files = globSync("{infra,service}/**/*.{ts,sh,pl,cjs,conf,service,socket,timer,path,slice,nft}", {
    cwd: root,
  }).filter((file) => file !== "infra/networks.ts");
  // IPv4 whole; IPv6 with a group beside its "::", or the loopback. Pulumi's package tokens ("a:b:C") have no "::".
  const literal =
    /\b(?:\d{1,3}\.){3}\d{1,3}\b|(?<![\w:])(?:[0-9a-f]{1,4}:){1,7}:[0-9a-f]{0,4}(?![\w:])|(?<![\w:}])::1(?![\w:])/;
  const comment = /^\s*(\/\/|\*|\/\*|#)/;
  const found = files.flatMap((file) =>
    readFileSync(`${root}${file}`, "utf8")
      .split("\n")
      .flatMap((line, i) => (!comment.test(line) && literal.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});
