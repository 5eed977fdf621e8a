/** The last runs of each site's builder, and one of them with what its build printed (service/builder/run/runs.ts). */
import * as v from "valibot";
import { numberedName } from "../../../service/builder/files.ts";
import { printableLines } from "../../../service/printable.ts";
import { runOnHost, type Target } from "../../apply/run-on-host.ts";
import { paths, units } from "../../host/paths.ts";
import { UserError } from "../../user-error.ts";
import { all, command, ended, named, type Options, ofStack, siteNamed, targets, valued } from "../command.ts";
import { age, duration } from "../format.ts";
import { readStack } from "../stack.ts";
import { count, decoded, lastShape, text, unitsIn } from "./host-report.ts";
import { followAll } from "./logs.ts";
import { stepLine, stepsOn } from "./progress.ts";

const runShape = v.object({
  ...{ number: count, ...lastShape.entries, release: v.nullish(text), pages: v.optional(count) },
  ...{ subject: v.optional(text), author: v.optional(text), commits: v.optional(v.array(text), []) },
  failing: v.optional(v.object({ attempts: count })),
});
/** `output`: what its build printed. */
export type Run = v.InferOutput<typeof runShape> & {
  readonly host: string;
  readonly hook: string;
  readonly output?: string;
};

const folderOf = (hook: string): string => `${paths.sites}/${hook}/work/runs`;

const kept = 50;

/**
 * Its answer has the states of the builders, and a line for each site: the first lines of the newest runs' files, the
 * newest last. It starts three programs a site, as each costs 2 ms.
 */
export function listScript(hooks: readonly string[], last = kept): string {
  return `runs() {
  for file; do
    { [ ! -f "$file" ] || [ -L "$file" ]; } || set -- "$@" "$file"
    shift
  done
  [ $# -le ${last} ] || shift $(($# - ${last}))
  [ $# -eq 0 ] || head -qn 1 -- "$@" | head -c 4000000 | base64 -w 0
}
echo "states $(systemctl show -p Id,ActiveState ${hooks.map(units.build).join(" ")} | base64 -w 0)"
${hooks.map((hook) => `echo "${hook} $(runs ${folderOf(hook)}/[0-9]*.json)"`).join("\n")}
echo end
`;
}

/** The newest `last` of each hook, the newest first. */
async function runsOf(host: Target, hooks: readonly string[], last: number): Promise<Run[]> {
  return runsIn(host, await runOnHost(host, listScript(hooks, last), 30));
}

export function runsIn(host: Pick<Target, "name">, answer: string): Run[] {
  const [states, ...lines] = answer.split("\n");
  if (lines.pop() !== "end") throw new UserError(`${host.name}: its answer is incomplete. Run the command again.`);
  const idle = unitsIn(states?.split(" ")[1]).filter(({ active }) => active === "inactive" || active === "failed");
  return lines.flatMap((line) => {
    const [hook = "", runs] = line.split(" ");
    const isIdle = idle.some((unit) => unit.name === units.build(hook));
    const ofBuilder = decoded(runs).split("\n").filter(Boolean).reverse();
    return ofBuilder.map((run) => parse(run, { host: host.name, hook }, isIdle));
  });
}

function parse(line: string, of: { host: string; hook: string }, isIdle: boolean): Run {
  const checked = v.safeParse(v.pipe(v.string(), v.parseJson(), runShape), line);
  if (!checked.success)
    throw new UserError(`${of.host}: a file in ${folderOf(of.hook)} is not the builder's. Remove it.`);
  const isCut = checked.output.result === "running" && isIdle;
  return { ...of, ...checked.output, ...(isCut && { result: "failed", reason: "the build was interrupted" }) };
}

async function outputOf(host: Target, { hook, number }: Run): Promise<string> {
  const file = `${folderOf(hook)}/${numberedName(number)}`;
  const answer = await runOnHost(host, `tail -n +2 ${file} | head -c 2000000`, 30);
  const checked = v.safeParse(v.pipe(v.string(), v.parseJson(), v.string()), answer);
  return checked.success ? printableLines(checked.output).trimEnd() : "";
}

/** The newest, if there is one, with what its build printed. */
export async function lastRun(host: Target, hook: string): Promise<Run[]> {
  const [run] = await runsOf(host, [hook], 1);
  return run === undefined ? [] : [{ ...run, output: await outputOf(host, run) }];
}

/** "timer" for the builder's own word. */
const triggersOf = ({ trigger }: Run): string => trigger.map((name) => (name === "tick" ? "timer" : name)).join(", ");

function linesOf(run: Run, now: string): string[] {
  const { number, result, reason, commit, at, subject, author, failing, pages, release, warnings, output } = run;
  const { total, ...phases } = run.milliseconds;
  const steps = Object.entries(phases).flatMap(([step, took]) => (took > 0 ? [`${step} ${duration(took)}`] : []));
  const tries = failing === undefined || failing.attempts < 2 ? "" : `, ${failing.attempts} failures in a row`;
  const took = result === "running" ? "" : ` in ${duration(total ?? 0)}`;
  const from = commit === null ? [] : [commit.slice(0, 7), subject, author && `by ${author}`];
  const made = result === "published" || result === "rolled back" ? [`${pages ?? 0} pages as ${release}`] : [];
  const lines = [from.filter(Boolean).join(" "), triggersOf(run), reason, [...made, ...steps].join(", ")];
  const printed = output ? output.split("\n") : [];
  const more = output === undefined ? [] : [...warnings.map((text) => `warning: ${text}`), ...printed];
  return [
    `${String(number).padStart(4)}  ${result} ${age(at, now)}${took}${tries}`,
    ...[...lines.filter(Boolean), ...more].map((line) => `      ${line}`.trimEnd()),
  ];
}

export const commitShape = /^[0-9a-f]{7,64}$/;

/** Of the commits that came with a run, it has the first 12 digits. */
export const brings = ({ commit, commits }: Run, word: string): boolean =>
  commitShape.test(word) && [commit, ...commits].some((one) => one?.startsWith(word.slice(0, one.length)));

function isNamed(run: Run, word: string): boolean {
  const { number, trigger, release } = run;
  return brings(run, word) || [String(number), release].includes(word) || trigger.includes(`delivery ${word}`);
}

const ofEach = (runs: readonly Run[]) => Map.groupBy(runs, ({ host, hook }) => `${hook} on ${host}`);

async function sitesOf(name: string | undefined, options: Options) {
  const { hosts, hooksAndPreviews: hooks } = await readStack(ofStack(options));
  const chosen = name === undefined ? hooks : [siteNamed(hooks, name)];
  const sites = chosen.flatMap(({ name, site }) => (site === undefined ? [] : [name]));
  return { sites, on: targets(hosts, options) };
}

export function show(runs: readonly Run[], { json }: Options): void {
  const now = new Date().toISOString();
  if (json) console.log(JSON.stringify(runs, null, 2));
  else for (const [of, each] of ofEach(runs)) console.log([of, ...each.flatMap((run) => linesOf(run, now))].join("\n"));
}

async function follow(name: string | undefined, options: Options): Promise<void> {
  const { sites, on } = await sitesOf(name, options);
  const line = stepLine();
  const followed = async (host: Target): Promise<void> => {
    for await (const step of stepsOn(host, sites)) {
      line.show(step);
      if (!step.isEnd) continue;
      const runs = await lastRun(host, step.hook);
      if (runs[0]?.at === step.at) show(options.json ? runs : line.rest(runs), options); // else a comparison that found nothing
    }
  };
  await followAll(on, followed, line.print);
}

/** Of those on the hosts of the options: what `choose` takes, and the faults of hosts that do not answer. */
async function print(
  name: string | undefined,
  options: Options,
  choose: (runs: readonly Run[], on: readonly Target[]) => Promise<readonly Run[]>,
  last = kept,
): Promise<void> {
  const { sites, on } = await sitesOf(name, options);
  const { values, faults } = await ended(on.map((host) => runsOf(host, sites, last)));
  const runs = await choose(values.flat(), on);
  show(runs, options);
  if (runs.length === 0 && faults.length === 0 && !options.json)
    console.log("No such run is among the last 50 of each site.");
  if (faults.length > 0) throw new UserError(faults.join("\n"));
}

const showRun = command({
  takes: ["host", "json"],
  examples: [["deploys show 72d3162e-cc78-11e3-81ab-4c9367dc0958", "by its delivery, commit, release or number"]],
}).action((word: string, options: Options) =>
  print(undefined, options, (runs, on) => {
    const found = runs.filter((run) => isNamed(run, word));
    if (found.length === 0) process.exitCode = 1;
    const hostOf = (run: Run) => on.find(({ name }) => name === run.host)!;
    return all(found.map(async (run) => ({ ...run, output: await outputOf(hostOf(run), run) })));
  }),
);

const mostRuns = valued(/^([1-9]|[1-4]\d|50)$/, "Use a number from 1 to 50.", Number);

type ListOptions = Options & { last: number; failed?: boolean; follow?: boolean };

export const deploys = command({
  takes: ["host", "json"],
  examples: [
    ["deploys", "the last runs of each site on each host: what started each, its result and reason"],
    ["deploys site --failed --last 1", "the last one that published nothing, for a reason to correct"],
    ["deploys --follow", "builds as they run"],
    ["deploys show 0123456", "the runs of a commit, with what its build printed"],
  ],
})
  .option("-n, --last <number>", "of each site on each host", mostRuns, 5)
  .option("--failed", "only runs that failed")
  .option("-f, --follow", "print the steps of builds and each run as they come, until Ctrl-C")
  .addCommand(named("show <run>", "print a run with what its build printed", showRun))
  .action(async (name: string | undefined, { last, failed, follow: follows, ...options }: ListOptions) => {
    if (follows) return follow(name, options);
    const choose = async (runs: readonly Run[]) => {
      const wanted = ofEach(runs.filter(({ result }) => !failed || result === "failed" || result === "rejected"));
      return [...wanted.values()].flatMap((of) => of.slice(0, last));
    };
    await print(name, options, choose, failed ? kept : last);
  });
