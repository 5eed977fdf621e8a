/** The real bundle after a kill. hosts/cuts cuts the power at each of its calls, hosts/rebuild/soak-kills.ts kills it at random. */
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { currentRelease, differences } from "../../../../service/builder/release/releases.ts";
import { bundledBuilder, start } from "../harness.ts";
import { says } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

onCopies(1);

test("the builder's start removes what a kill left, also where nothing is to be built", async () => {
  const { places } = site;
  const left = [
    places.release("000009-half"),
    join(places.manifests, "000009-half.json.new"),
    join(places.clone, ".git/index.lock"),
    join(places.out, "half.html"),
  ];
  for (const path of left) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, "");
  }
  await once(start(site, await bundledBuilder(site.folder)), "close");
  expect(left.filter((path) => existsSync(path))).toEqual([]);
  expect(differences(places, currentRelease(places)!)).toEqual([]);
  expect(site.page()).toContain(says(1));
});
