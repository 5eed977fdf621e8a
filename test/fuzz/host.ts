/**
 * `npm run fuzz -- --host`: the same requests to the receiver as a host runs it: the installed bundle in its unit's
 * sandbox, behind the socket that admits GitHub's ranges alone. The client runs in the host's network, from addresses of
 * GitHub that the host has for the occasion.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sourceSets } from "../../infra/config/derived.ts";
import { units } from "../../infra/host/paths.ts";
import { gitHostNames } from "../../service/git-hosts/index.ts";
import { beneath, DirectApply, settingsOf } from "../hosts/apply-directly.ts";
import { bootHost, type Host } from "../hosts/lab/host.ts";
import type { Release } from "../hosts/lab/image.ts";
import { withLab } from "../hosts/lab/lab.ts";
import { run, step } from "../hosts/lab/process.ts";
import type { Run } from "./client.ts";
import { hookSecrets } from "./requests.ts";
import { connections, type Fuzz, type Fuzzed, fuzzed } from "./run.ts";

const client = fileURLToPath(new URL("client.ts", import.meta.url));
/** One for each lane, in GitHub's range 140.82.112.0/20. The receiver serves every hook on each of its sockets. */
const sources = Array.from({ length: connections }, (_, lane) => `140.82.112.${lane + 1}`);

async function install(host: Host): Promise<number> {
  const repository = "https://git.example.net/example/site.git";
  // The address of a self-hosted git host; the others publish their ranges.
  const hook = { repository, branch: "main", sources: ["203.0.113.7"] };
  const hooks = gitHostNames.map((gitHost) => ({ ...hook, name: gitHost, gitHost }));
  const settings = { ...settingsOf(host, hooks), limits: fuzzed.limits };
  const applied = await new DirectApply(host).apply(settings, beneath, hookSecrets);
  if (applied.code !== 0) throw new Error(applied.stderr);
  await host.inside(`set -e
for address in ${sources.join(" ")}; do ip address add $address/32 dev lo; done
systemctl start ${units.receiver}`);
  return sourceSets(settings).find(({ name }) => name === "github")!.port;
}

/** Exits with 1 if an answer is wrong, or the receiver ended. */
export const fuzzHost = (release: Release, { count, seconds, seed }: Omit<Fuzz, "target" | "say">): Promise<void> =>
  withLab({ releases: [release] }, async () => {
    console.log(`fuzz: --seed ${seed}`); // that of the process in the lab
    const host = await step(`boot ${release}`, () => bootHost({ name: "fuzz", release, variant: "packages" }));
    const port = await step("apply the receiver's layers", () => install(host));
    const state = () => host.read(`systemctl show -p MainPID -p NRestarts ${units.receiver}`);
    const before = await state();
    const [pid] = host.processes(units.receiver);
    const spool = join(host.root, "var/spool/pushgate");
    const asked: Run = {
      host: "127.0.0.1",
      port,
      sources,
      pid: pid!,
      hooks: gitHostNames,
      spool,
      count,
      seconds,
      seed,
    };
    const { stdout } = await run("nsenter", [`--net=/proc/${host.leader}/ns/net`, process.execPath, client], {
      stdin: JSON.stringify(asked),
      timeout: (seconds + 120) * 1000,
      onLine: (line) => {
        if (!line.startsWith("{")) console.log(line);
      },
    });
    const { sent, faults, statuses }: Fuzzed = JSON.parse(stdout.trim().split("\n").at(-1)!);
    const after = await state();
    const all = after === before ? faults : [...faults, `the receiver was ${before}, and is now ${after}`];
    for (const fault of all) console.error(`fuzz: --host --seed ${seed}: ${fault}`);
    await host.kill();
    console.log(JSON.stringify(statuses));
    console.log(`${sent} passed, ${all.length} failed`);
    process.exitCode = all.length > 0 ? 1 : 0;
  });
