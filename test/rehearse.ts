/**
 * `sudo npm run rehearse [-- release]`: rehearses production on a throwaway host, step by step, as an operator would do
 * it: a bare Debian, one `pulumi up`, a push that becomes a page, every attack with its layer active and removed, a
 * repair, a rollback, a reboot, the removal. Only Cloudflare is a fake. Exits 1 if a result differs from the declared
 * one.
 */
import { styleText } from "node:util";
import type { Run } from "./engine/engine.ts";
import { summary } from "./hosts/attack-report.ts";
import { type Lab, startAttackers } from "./hosts/attackers.ts";
import * as fault from "./hosts/faults.ts";
import { bootHost, type Host } from "./hosts/lab/host.ts";
import { withLab } from "./hosts/lab/lab.ts";
import { step } from "./hosts/lab/process.ts";
import { accepted, type Stage, stages } from "./hosts/matrix.ts";
import { ready } from "./hosts/ready.ts";
import { front, placesOf } from "./hosts/rebuild/site.ts";
import { idle, nextResult, published, statusOf } from "./hosts/rebuild/status.ts";
import { buildRebuild, type Rebuild } from "./hosts/rebuild/world.ts";
import { hostEntry, hostnameOf, type World, zoneName } from "./hosts/world.ts";

const release = await ready("rehearse", process.argv[2] ?? "bookworm");

let failed = 0;
let passed = 0;

function expect(what: string, found: string | number, wanted: string | number): void {
  const same = found === wanted;
  if (same) passed++;
  else failed++;
  const mark = same ? styleText("green", "as declared") : styleText("red", `wanted: ${wanted}`);
  console.log(`  ${what}\n    ${String(found).padEnd(60)} ${mark}`);
}

/** Runs Pulumi's engine, and prints one line for each of its steps. */
async function engine(title: string, run: () => Promise<Run>, code: number): Promise<Run> {
  console.log(styleText("bold", `\n${title}`));
  const done = await run();
  for (const { op, name } of done.steps) console.log(`  ${op.padEnd(8)} ${name}`);
  expect(`exit code, ${done.seconds.toFixed(1)} s`, String(done.code), String(code));
  if (done.code !== code) console.log(done.stdout, done.stderr);
  return done;
}

async function attack(lab: Lab, { layer, during, removal, rows }: Stage): Promise<void> {
  const { world, host } = lab;
  console.log(styleText("bold", `\n${layer}`));
  await during?.made.make(world, host);
  for (const row of rows) expect(row.attack, summary(await row.send(lab), world.edge), row.stopped ?? row.declared);
  await removal.make(world, host);
  console.log(styleText("dim", `  now ${removal.says}`));
  for (const row of rows) expect(row.attack, summary(await row.send(lab), world.edge), row.reaches);
  await during?.undone(host).make(world, host);
}

const siteHostname = `www.${zoneName}`;

/** Makes a commit, sends its delivery to Cloudflare, waits for the build, and visits the page at Cloudflare. */
async function publish({ world, repositories }: Rebuild, host: Host, mark: string): Promise<void> {
  const commit = repositories.site.push({ "layouts/index.html": front(mark) });
  expect("its delivery", summary(await world.deliver(), world.edge), accepted);
  const { last } = await published(host, commit);
  console.log(styleText("dim", `  ${last?.reason}; ${JSON.stringify(last?.milliseconds)}`));
  await visited(world, mark);
}

async function visited(world: World, mark: string): Promise<void> {
  const { status, body } = await world.visit(siteHostname);
  expect(`https://${siteHostname}/`, `${status} ${/layout-[a-z]+/.exec(body)?.[0]}`, `200 layout-${mark}`);
}

async function rehearse(lab: Lab, rebuild: Rebuild): Promise<void> {
  const { world, host } = lab;
  const push = async (what: string) => expect(what, summary(await world.deliver(), world.edge), accepted);
  await engine("pulumi up, on a bare host", () => world.stack.up(), 0);
  await engine("pulumi preview --expect-no-changes: the audit", () => world.stack.preview("--expect-no-changes"), 0);
  console.log(styleText("bold", "\nThe first build of the site"));
  // The timer starts it, a minute after boot.
  await published(host, rebuild.repositories.site.head()!, { timeout: 120_000 });
  await visited(world, "first");
  console.log(styleText("bold", "\nA push to the repository"));
  await publish(rebuild, host, "second");

  // An attacker on the host uses curl.
  await host.inside("apt-get install -q -y --no-install-recommends curl >/dev/null 2>&1");
  await fault.bots("managed_challenge").make(world, host);
  await fault.noGuard.make(world, host);
  for (const stage of stages) await attack(lab, stage);

  const audit = await engine("The audit, with every layer open", () => world.stack.preview("--expect-no-changes"), 7);
  for (const { message } of audit.diagnostics.filter(({ message }) => message.includes(`${host.name}: `))) {
    console.log(styleText("dim", `  ${message.trim().split("\n").slice(0, 6).join("\n    ")}`));
  }
  await engine("pulumi up repairs them in place", () => world.stack.up(), 0);
  await push("a push");

  console.log(styleText("bold", "\nA rollback"));
  const before = statusOf(host)!;
  await rebuild.request(`rollback-${before.releases[1]!.id}`);
  await nextResult(host, before, "rolled back");
  await visited(world, "first");

  console.log(styleText("bold", "\nA reboot"));
  await host.reboot();
  await publish(rebuild, host, "third");

  await leave(world, lab);
}

async function leave(world: World, { host }: Lab): Promise<void> {
  await idle(host);
  world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  await engine("state: absent", () => world.stack.up(), 0);
  const left = Object.keys(await host.snapshot("/etc")).filter((path) => path.includes("pushgate"));
  expect("files of pushgate in /etc", left.length, 0);
  const { webRoot } = placesOf("site");
  expect(
    "the site",
    await host.read(`test ! -L ${webRoot} && grep -o 'layout-[a-z]*' ${webRoot}/index.html`),
    "layout-third",
  );
  const hostnames = [hostnameOf(host), siteHostname];
  const records = world.api.zone.dns_records.filter(({ name }) => hostnames.includes(name));
  expect("records of pushgate in the zone", records.length, 0);
}

await withLab({ releases: [release] }, async () => {
  const host = await step(`boot a bare ${release}`, () => bootHost({ name: "web1", release, variant: "bare" }));
  const site = { hostname: siteHostname };
  const rebuild = await buildRebuild(host, {
    newcomer: true,
    docs: false,
    site,
    world: { starts: true, passphrase: true },
  });
  const { world } = rebuild;
  const { lab, close } = await startAttackers(host, world);
  await rehearse(lab, rebuild);
  close();
  await rebuild.close();
  await host.kill();
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
