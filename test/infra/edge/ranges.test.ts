import { expect, test } from "vitest";
import { rangeWarnings } from "../../../infra/edge/ranges.ts";
import { networks } from "../../../infra/networks.ts";

test("preview warns of each range of Cloudflare's that the firewalls lack, and of each that is Cloudflare's no more", () => {
  const { cidrs } = networks.cloudflare;
  expect(rangeWarnings(cidrs.toReversed())).toEqual([]);
  const [first, ...rest] = cidrs;
  expect(rangeWarnings([...rest, "198.51.100.0/24", "2001:db8::/32"])).toEqual([
    expect.stringMatching(/^Cloudflare connects from 198\.51\.100\.0\/24, 2001:db8::\/32, too, .* Update pushgate/),
    expect.stringMatching(new RegExp(`^the hosts' firewalls admit ${first}, which .* Update pushgate`)),
  ]);
});
