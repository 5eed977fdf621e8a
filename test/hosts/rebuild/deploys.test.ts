/** Measures `npx pushgate deploys` for 20 sites on two hosts; no other test file runs at the same time. */
import { userInfo } from "node:os";
import { afterAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { run } from "../lab/process.ts";
import { release } from "../release.ts";
import { buildWorld } from "../world.ts";

// The command reads a stack file and folders, so no `up` declares these sites.
const names = Array.from({ length: 20 }, (_, i) => `site${i}`);
const hosts = await Promise.all(["many1", "many2"].map((name) => bootHost({ name, release, variant: "bare" })));
const hooks = names.map((name) => ({
  ...{ name, gitHost: "github", repository: `https://github.com/example/${name}.git`, branch: "main" },
  site: { webRoot: `/srv/www/${name}` },
}));
const world = await buildWorld(hosts, { config: { "pushgate:hooks": hooks } });
afterAll(async () => {
  await world.close();
  await Promise.all(hosts.map((host) => host.kill()));
});

const milliseconds = { total: 1830, fetch: 300, decide: 1, checkout: 40, dependencies: 0, build: 1200, publish: 60 };
const published = {
  result: "published",
  reason: "3 pages changed",
  commit: "a".repeat(40),
  trigger: ["tick"],
  warnings: [],
};
const last = {
  ...published,
  at: new Date().toISOString(),
  milliseconds,
  release: `000050-${"a".repeat(12)}`,
  pages: 10,
};

/** Of each host: the processes that were begun in it, and the logins. */
const counted = () =>
  Promise.all(
    hosts.map(async (host) => {
      const begun = Number(await host.read("cut -d ' ' -f 5 /proc/loadavg"));
      return { begun, logins: (await host.journal()).split("Accepted publickey").length };
    }),
  );

async function deploys() {
  const before = await counted();
  const { code, stdout, seconds } = await world.stack.pushgate("deploys", "--json");
  const after = await counted();
  const shown = (JSON.parse(stdout) as Record<"host" | "hook" | "number", string>[]).map(
    ({ host, hook, number }) => `${host} ${hook} ${number}`,
  );
  const newest = names.flatMap((hook) => [50, 49, 48, 47, 46].map((number) => `${hook} ${number}`));
  expect([code, shown]).toEqual([0, hosts.flatMap(({ name }) => newest.map((each) => `${name} ${each}`))]);
  const more = (what: "begun" | "logins") => after.map((each, i) => each[what] - before[i]![what]);
  return { seconds, begun: more("begun"), logins: more("logins") };
}

/** Ends the connection that the commands of ssh.sh share. */
const disconnect = ({ alias }: Host) =>
  run("ssh", ["-o", `ControlPath=/tmp/pushgate-${userInfo().uid}/%C`, "-O", "exit", `root@${alias}`]);

// Measured on two idle cores: 0.5 s over shared connections, 0.8 s over new ones; with npx 0.9 s and 1.1 s. The host's lines
// for each site must not start a program for each run: 89 processes begin over a shared connection, a login is 19 more.
test("deploys shows 20 sites on two hosts with one connection to each, in which at most 130 processes begin", async () => {
  const write = `for site in ${names.join(" ")}; do
  mkdir -p ${paths.sites}/$site/work/runs && cd ${paths.sites}/$site/work/runs
  for number in $(seq 50); do
    printf '{"number":%s,%s\n"%s"\n' $number '${JSON.stringify(last).slice(1)}' '${"x".repeat(20_000)}' >$(printf %09d.json $number)
  done
done`;
  await Promise.all(hosts.map((host) => host.inside(write)));
  for (const [of, ran] of [
    ["new connections, the first logins", await deploys()],
    ["shared connections", await deploys()],
    ["new connections", (await Promise.all(hosts.map(disconnect))) && (await deploys())],
    ["shared connections", await deploys()],
  ] as const) {
    console.log(`deploys of 20 sites on two hosts over ${of}: ${ran.seconds.toFixed(2)} s, processes: ${ran.begun}`);
    expect(ran.logins).toEqual(hosts.map(() => Number(of.startsWith("new"))));
    expect(Math.max(...ran.begun)).toBeLessThanOrEqual(130);
  }
});
