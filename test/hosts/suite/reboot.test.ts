/**
 * Events on the host that could open the chain: a reboot, restarts and reloads of services, and lists that were
 * widened manually. Only the last case runs an `up`: the guard repairs and proves, or it closes the sockets and logs why.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { type Change, delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { answers, summary } from "../attack-report.ts";
import { deployedWorld } from "../deployed.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { type Answer, hostnameOf } from "../world.ts";

const { world, host } = await deployedWorld("reboot");

/** A validly signed delivery of another source, with the zone's own client certificate: only the list rejects it. */
function fromElsewhere(client: string = actors.stranger.v4[0], change: Change = {}): Promise<Answer> {
  const sent = delivery({ host: hostnameOf(host), headers: { "cf-connecting-ip": client }, ...change });
  return world.contact(host, actors.edge.v4[2], sent, world.client(), 3_000);
}
/** A connection from a stranger to the origin port: the firewall must drop it before nginx sees it. */
const direct = () => world.contact(host, actors.stranger.v4[0], delivery({ host: hostnameOf(host) }), undefined, 300);

/** Sends attacks while `work` runs and returns the answers. Each must be a rejection, even between two layers. */
async function besieged(work: () => Promise<unknown>): Promise<Answer[]> {
  const strangers = () => Promise.all([direct(), fromElsewhere(), fromElsewhere(actors.stranger.v6[0])]);
  return (await repeatWhile(work, strangers)).seen.flat();
}

const guardSays = () => host.read("cat /run/pushgate-guard/verdict");
const guard = () => host.inside(`systemctl start ${units.guard}`, { check: false });
/** A test that starts the guard itself has no timer that could start it before. A run that has begun ends first. */
async function guardSleeps(): Promise<void> {
  await host.inside(`systemctl stop ${units.guardTimer}`);
  await guard();
}
const guardWakes = () => host.inside(`systemctl start ${units.guardTimer}`);

async function everythingHolds(): Promise<void> {
  expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.deliver({ source: actors.github.v6[0] })).toMatchObject({ status: 202 });
  expect(summary(await fromElsewhere(), world.edge)).toBe(answers.notAllowed);
  expect(summary(await direct(), world.edge)).toBe("silence");
}

const accepted = (seen: readonly Answer[]) => seen.filter(({ status }) => status >= 200 && status < 300);

test("the receiver accepts deliveries after a reboot, and no stranger gets in during it", async () => {
  const boot = await host.read("cat /proc/sys/kernel/random/boot_id");
  const seen = await besieged(() => host.reboot());
  expect(await host.read("cat /proc/sys/kernel/random/boot_id")).not.toBe(boot);
  await everythingHolds();
  expect(accepted(seen)).toEqual([]);
  await until("the guard has run", async () => ((await guardSays()) === "proven" ? true : undefined));
});

test.each([
  "systemctl restart nftables.service",
  "systemctl restart systemd-networkd.service",
  `for _ in 1 2 3 4 5; do systemctl restart ${units.nginx}; sleep 0.3; done`,
  `for _ in 1 2 3 4 5; do systemctl reload ${units.nginx}; sleep 0.2; done`,
  "systemctl daemon-reexec",
])("no delivery is rejected and no stranger gets in during %s", async (change) => {
  const seen = await besieged(async () => {
    const { seen } = await repeatWhile(
      () => host.inside(change),
      () => world.deliver(),
    );
    expect(seen.filter(({ status }) => status !== 202)).toEqual([]);
  });
  expect(accepted(seen)).toEqual([]);
  await everythingHolds();
});

describe("manual changes", () => {
  beforeAll(guardSleeps);
  afterAll(async () => void (await guardWakes()));

  test("a list on -.slice admits a stranger until the guard closes the sockets and logs why; it opens them when the list is gone", async () => {
    const widen = "/etc/systemd/system/-.slice.d/wide.conf";
    await host.writeFile(widen, `[Slice]\nIPAddressAllow=${actors.stranger.v4[0]}\n`);
    // systemd 257 applies a changed list when a unit starts in the slice.
    await host.inside("systemctl daemon-reload && systemd-run -q --wait --collect --slice=pushgate.slice true");
    expect(summary(await fromElsewhere(), world.edge)).toBe(answers.accepted);

    await guard();
    const [github, foreign] = await Promise.all([world.deliver(), fromElsewhere()]);
    expect(github).toMatchObject({ status: 503, servedBy: "pushgate-proxy" });
    expect(foreign.status).toBe(403);
    expect(await guardSays()).toContain(`closed: -.slice admits ${actors.stranger.v4[0]}/32`);
    expect(await host.journal(units.guard)).toContain("fix: remove IPAddressAllow from -.slice");
    // The sockets stay closed while the list is there.
    await guard();
    expect((await world.deliver()).status).toBe(503);

    await host.inside(`rm -r /etc/systemd/system/-.slice.d && systemctl daemon-reload`);
    await guard();
    expect(await guardSays()).toBe("proven");
    await everythingHolds();
  });

  describe("a list that the kernel enforces and no unit declares", () => {
    const [stranger] = actors.stranger.v4;
    const docs = { hook: "docs", secret: secrets.docs.current };
    const getsIn = async () => (await fromElsewhere(stranger, docs)).status === 202;
    const drop = `${paths.units}/${units.socket(`${actors.gitlab.v4[0]}-32`)}.d`;
    beforeEach(async () => {
      await host.inside(`mkdir ${drop} && printf '[Socket]\\nIPAddressAllow=${stranger}\\n' >${drop}/wide.conf
systemctl daemon-reload
systemd-run --quiet --wait --collect --slice=pushgate.slice true`);
      expect(await getsIn()).toBe(true);
      await host.inside(`rm -r ${drop} && systemctl daemon-reload`);
      // systemd 252 applies a changed list at once, systemd 257 does not.
      expect(await getsIn()).toBe(release === "trixie");
    });

    test("the guard's next run removes it, and preview is clean", async () => {
      await guard();
      expect(await getsIn()).toBe(false);
      expect(await guardSays()).toBe("proven");
      await guardWakes();
      await world.stack.cleanPreview();
      await guardSleeps();
    });

    test("an apply of the receiver removes it", async () => {
      await host.inside(`chmod 0600 ${paths.receiverSettings}; systemctl start ${units.guardTimer}`);
      const { code, steps } = await world.stack.up();
      expect(code).toBe(0);
      expect(steps.map(({ op, name }) => `${op} ${name}`)).toContain(`update ${host.name}-receiver`);
      expect(await getsIn()).toBe(false);
    });
  });
});

test("the audit is clean after all these events", async () => {
  await world.stack.cleanPreview();
});
