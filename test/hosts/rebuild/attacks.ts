/**
 * Attacks on a host through the hook docs, whose operator opens Hugo to programs and addresses. An exported round has
 * a test that removes what holds it and sees it win; `npm run soak -- --hostile` repeats all.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { builderUser, generatorUser, paths, units } from "../../../infra/host/paths.ts";
import { random } from "../../fixtures.ts";
import { internalSecret, startInternal } from "../lab/internal-services.ts";
import { until } from "../lab/process.ts";
import { css, endless, front, type HookName, placesOf } from "./site.ts";
import { idle, published, runOf, runs, statusOf, timersEnd } from "./status.ts";
import { builderPaths, type Rebuild, withDropIn } from "./world.ts";

const hook = "docs";
const { site, requests, rootRequests, paused } = placesOf(hook);

let mark = 0;
const built = ({ host, push }: Rebuild, layout: string) =>
  runOf(host, () => push({ "layouts/index.html": `${layout}${++mark}` }, hook), { hook, timeout: 90_000 });

/** Puts the programs that Hugo may start. Hugo 0.111 starts npx, Hugo 0.131 the program itself. */
export async function putProgram({ host }: Pick<Rebuild, "host">, text: string): Promise<void> {
  for (const name of ["npx", "postcss"]) await host.writeFile(`/usr/bin/${name}`, text, "0755");
}

/** A layout where the page has what Hugo read from the address. */
export const remote = (url: string) =>
  `<p>front</p>{{ with resources.GetRemote "${url}" }}{{ with .Err }}ERR {{ . }}{{ else }}{{ .Content }}{{ end }}{{ else }}NOTHING{{ end }}`;

/** Its process detaches itself, ignores signals, waits for Hugo's end, and tries to write the build's. It lives on for 4 s. */
const forger = `#!/usr/bin/perl
use POSIX;
$SIG{TERM} = $SIG{HUP} = "IGNORE";
my $hugo = getppid();
my ($id) = do { local (@ARGV, $/) = "/proc/$hugo/environ"; <> =~ /INVOCATION_ID=([0-9a-f]{32})/ };
print "a{}";
fork and exit;
POSIX::setsid();
POSIX::close($_) for 0..2;
select undef, undef, undef, 0.02 while kill 0, $hugo;
unlink "/result/last";
if (open my $end, ">", "/result/last") { print $end "$id success exited 0\\n"; close $end }
open(CONNECTION, "+<&=", 3) and shutdown(CONNECTION, 2);
exec "sleep", "4";
`;
const hidden = `#!/usr/bin/perl
$SIG{TERM} = "IGNORE";
chdir "/out";
for (1..40) { mkdir "d" x 200, 0700; chdir "d" x 200 or die }
for (my $i = 0;; $i++) { open my $file, ">", "f$i" or die; print $file "x" x 100_000; close $file; select undef, undef, undef, 0.02 }
`;
/** Builds that a limit ends: a layout, and the program that it starts. */
export const greedy = {
  memory: ['{{ $s := "0123456789abcdef" }}{{ range seq 34 }}{{ $s = printf "%s%s" $s $s }}{{ end }}{{ len $s }}', ""],
  processes: [css, "#!/bin/sh\nfor i in $(seq 1000); do sleep 60 >/dev/null 2>&1 & done\nwait\n"],
  "folders that it closes and hides": [css, hidden],
} as const;

/** Attacks once. Returns what the attacker got; undefined where nothing. */
type Round = (rebuild: Rebuild, metadata: string) => Promise<string | undefined>;

/** Held by systemd, which kills the whole control group, and by root's file, written after that with the unit's invocation id. */
export async function forgeEnd(rebuild: Rebuild): Promise<string | undefined> {
  await putProgram(rebuild, forger);
  // Hugo keeps what a program made of the same text.
  const { result } = await built(rebuild, css.replace("a{}", `a{order:${mark + 1}}`));
  const alive = await rebuild.host.read(`pgrep -u ${generatorUser(hook)} -x sleep || :`);
  return alive === "" ? undefined : `the build was ${result} while its process runs`;
}

/** Held by `admit` in service/builder/source/repository.ts, and by LimitDATA= of the builder's unit. */
export async function fillMemory({ host, repositories, deliver }: Rebuild): Promise<string | undefined> {
  const most = 2 * 512 * 1024; // LimitDATA= in KiB
  const former = repositories.docs.head()!;
  let taken = 0;
  let over = false;
  const commit = repositories.docs.pushNested("README.md");
  const run = runOf(host, () => deliver(commit, hook), { hook, timeout: 120_000 }).finally(() => {
    over = true;
  });
  const looks = async () => {
    for (; !over; await sleep(50)) {
      const all = `for p in $(pgrep -u ${builderUser(hook)} -x git); do sed -n 's/^VmData:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$p/status; done`;
      taken = Math.max(taken, ...(await host.inside(all, { check: false })).stdout.split("\n").map(Number));
      if (taken > most) await host.inside(`pkill -KILL -u ${builderUser(hook)} -x git`, { check: false });
    }
  };
  await Promise.all([run, looks()]);
  repositories.docs.point(former);
  return taken > most ? `git took ${taken >> 10} MiB` : undefined;
}

/** Held by ExecStopPost= of the builder's unit, and service/builder/run/unit-end.ts. `more`: lines of the unit. */
export async function killBuilder({ host, push, repositories }: Rebuild, more = ""): Promise<string | undefined> {
  const [unit, paths] = [units.build(hook), builderPaths(hook)];
  const former = repositories.docs.head()!;
  const state = (property: string) => host.read(`systemctl show -p ${property} --value ${unit}`);
  const hugo = () => host.read(`pgrep -u ${generatorUser(hook)} -x hugo || :`);
  // Not the 2 s after which the next builder would end Hugo, too: a busy host may take longer to end it.
  return withDropIn(host, unit, `RestartSec=120s\n${more}`, async () => {
    await push({ "layouts/index.html": `${endless}${++mark}` }, hook);
    // A Hugo that has not printed its greeting yet ends at it, as the connection has no reader any more. It takes less
    // than a second of a core to get there.
    const hasComputed = async () =>
      Number(await host.read(`ps -u ${generatorUser(hook)} -o cputimes= | sort -n | tail -n 1`)) >= 1 || undefined;
    await until("hugo has computed for a second", hasComputed, { timeout: 60_000 });
    // systemd 257 starts the next builder at once where the .path unit sees what the killed one had taken.
    await host.inside(`systemctl stop ${paths}; systemctl kill --signal=KILL --kill-who=main ${unit}`);
    await until("the builder has ended", async () => (await state("SubState")) === "auto-restart" || undefined);
    const got = [
      statusOf(host, hook)!.failing ? "" : "the status shows nothing",
      (await host.inside(`test -e ${paused}`, { check: false })).code === 0 ? "" : "the next builder does not pause",
      await until("Hugo has ended", async () => (await hugo()) === "" || undefined, { timeout: 3_000 }).then(
        () => "",
        () => "Hugo lives on",
      ),
    ];
    return got.filter(Boolean).join(", ") || undefined;
  }).finally(() => {
    repositories.docs.point(former);
    return host.inside(`systemctl restart --no-block ${unit} ${paths}`);
  });
}

/** Held by a folder of root's own for root's requests, as foldersOf in infra/host/builder/builder.ts declares it. */
export async function requestRollback({ host }: Rebuild): Promise<string | undefined> {
  const rollbacks = async () => (await runs(host, hook)).filter(({ result }) => result === "rolled back").length;
  const before = await rollbacks();
  const plants = `for folder in ${requests} ${rootRequests}; do
  : >$folder/rollback-${statusOf(host, hook)!.releases.at(-1)!.id}; ln -s /etc/shadow $folder/tick; mkfifo $folder/pipe
  mkdir -p $folder/.taken $folder/x/y; ln -s ${site}/work $folder/work
done`;
  await runOf(host, () => host.inside("runuser -u guest -- sh -s", { stdin: plants, check: false }), { hook });
  await idle(host, hook);
  await host.inside(`rm -rf ${requests}/.taken ${rootRequests}/.taken`);
  return (await rollbacks()) === before ? undefined : "a member of the group rolled the site back";
}

/** Held by the builder's look at the egress table before it builds, service/confined.ts: no order of units is needed. */
export async function buildBeforeEgress(rebuild: Rebuild, metadata: string): Promise<string | undefined> {
  await rebuild.host.inside("nft delete table inet pushgate_egress");
  await built(rebuild, remote(`http://${metadata}:443/`));
  return (await rebuild.visit("/", hook)).body.includes(internalSecret) ? "the metadata is published" : undefined;
}

const ended =
  ([layout, program]: (typeof greedy)[keyof typeof greedy]): Round =>
  async (rebuild) => {
    await putProgram(rebuild, program);
    const { result } = await built(rebuild, layout);
    return result === "published" ? "the build was published" : undefined;
  };

const attacks: Readonly<Record<string, Round>> = {
  "a build forges its end": forgeEnd,
  "a push fills the memory by git": fillMemory,
  "a builder is killed at its memory limit": (rebuild) => killBuilder(rebuild),
  "a member of the group requests a rollback": requestRollback,
  "a build starts before the egress table": buildBeforeEgress,
  ...Object.fromEntries(Object.entries(greedy).map(([what, of]) => [`a build takes ${what}`, ended(of)])),
};

/** What an attack left on the host. */
const remains = (host: Rebuild["host"]) =>
  host.read(`pgrep -a -u ${generatorUser(hook)} || :
systemctl list-units --no-legend 'pushgate-generator-*@*' 'pushgate-stop-*@*'
find ${site}/work -mindepth 1 -maxdepth 1 \\( -name 'former-*' -o -name taken -o -name parked \\)
find ${requests} ${rootRequests} -mindepth 1 -maxdepth 1
find ${paths.generator}/*/result ! -user root
grep -rlsF ${internalSecret} ${site}/releases /var/lib/pushgate-sites/site/releases || :
nft list table inet pushgate_egress >/dev/null || echo no egress table`);

/** Repeats the attacks, each time in another order, beside good pushes. Throws at the first that wins. */
export async function soakAttacks(rebuild: Rebuild, minutes: number, seed: number) {
  const { host } = rebuild;
  const next = random(seed);
  const internal = await startInternal();
  await timersEnd(host);
  const good = async (to: HookName) => {
    const text = `good-${++mark}`;
    await published(host, await rebuild.push({ "layouts/index.html": front(text) }, to), { hook: to, timeout: 90_000 });
    if (!(await rebuild.visit("/", to)).body.includes(`layout-${text}`)) throw new Error(`${to} does not show ${text}`);
  };
  const end = performance.now() + minutes * 60_000;
  const rounds: Record<string, number> = {};
  while (performance.now() < end) {
    const order = Object.entries(attacks).map((attack) => ({ attack, at: next() }));
    for (const { attack } of order.sort((one, other) => one.at - other.at)) {
      if (performance.now() > end) break;
      const [name, round] = attack;
      const [won] = await Promise.all([round(rebuild, internal.metadata), good("site")]);
      if (won !== undefined) throw new Error(`${name}: won: ${won}`);
      await good(hook);
      await idle(host, hook);
      const left = await remains(host);
      if (left !== "") throw new Error(`${name}: left: ${left}`);
      rounds[name] = (rounds[name] ?? 0) + 1;
    }
  }
  await internal.close();
  return rounds;
}
