/** What a run prints of published ranges. test/infra/config/published.test.ts has how they are read and compared. */
import * as pulumi from "@pulumi/pulumi";
import { expect, test, vi } from "vitest";
import { driftIn } from "../../../infra/contract.ts";
import { compareRanges } from "../../../infra/edge/ranges.ts";
import { networks } from "../../../infra/networks.ts";

vi.mock("../../../infra/config/published.ts", async (original) => ({
  ...(await original<object>()),
  readPublished: async () => ["185.61.0.0/22"],
}));
const getIpRanges = vi.hoisted(() => async () => ({ ipv4Cidrs: ["185.60.0.0/22"] }));
vi.mock("../../../infra/edge/provider.ts", () => ({ cloudflare: { getIpRanges } }));

test("a run warns of each range that the hosts do not admit, and hands it to an audit", async () => {
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  const debug = vi.spyOn(pulumi.log, "debug").mockResolvedValue(undefined);
  await compareRanges([{ gitHost: "github" }]);
  const missing = () => debug.mock.calls.map(([text]) => `${driftIn(text)!.before} ${driftIn(text)!.item}`).sort();
  await expect.poll(missing).toEqual(["Cloudflare 185.60.0.0/22", "GitHub 185.61.0.0/22"]);
  const { cidrs, source } = networks.githubHooks;
  const told = warn.mock.calls.map(([text]) => text).filter((text) => text.includes("GitHub"));
  expect(told).toEqual([
    expect.stringMatching(/^GitHub sends from 185\.61\.0\.0\/22, too, .* \(https:.*\)\. Run npx pushgate networks/),
    `the hosts admit ${cidrs.join(", ")}, which GitHub no longer names (${source}). Run npx pushgate networks, then npx pulumi up.`,
  ]);
});
