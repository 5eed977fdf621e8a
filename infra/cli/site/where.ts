/**
 * Why a page is not new: what each host's builder made of a commit or what keeps it waiting, and what the public page
 * shows. Where a host has not heard of the commit, `trace` has the answer.
 */
import { exchange } from "../../../service/exchange.ts";
import { printable } from "../../../service/printable.ts";
import { tried } from "../../../service/tried.ts";
import { runOnHost, type Target } from "../../apply/run-on-host.ts";
import { quote } from "../../apply/shell.ts";
import { paths } from "../../host/paths.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, ended, type Options, ofStack, targets, valued } from "../command.ts";
import { age } from "../format.ts";
import { type Declared, readStack } from "../stack.ts";
import { lastFailed } from "../trace/history.ts";
import { brings, commitShape, listScript, type Run, runsIn } from "./deploys.ts";
import { type HookReport, parseReport, reportScript } from "./host-report.ts";
import { pendingText } from "./report-text.ts";

type State = "published" | "rolled back" | "building" | "failed" | "ignored" | "waiting" | "not delivered";
type Found = Readonly<{ host: string; hook: string; state: State; text: string; etag?: string }>;
type Page = Readonly<{ hook: string; url: string; text: string; isNew: boolean }>;

/** The file of a page in a site's folder. */
const fileOf = (hook: string, page: string): string => {
  const { pathname } = new URL(page, "https://site");
  const path = tried(() => decodeURI(pathname)) ?? pathname;
  return `${paths.sites}/${hook}/current${path}${path.endsWith("/") ? "index.html" : ""}`;
};

async function foundOn(host: Target, hooks: Declared["hooks"], commit: string, page: string): Promise<Found[]> {
  const names = hooks.map(({ name }) => name);
  const stats = names.map((name) => `echo "page ${name} $(stat -Lc '%Y %s' ${quote(fileOf(name, page))} 2>/dev/null)"`);
  const script = [...stats, reportScript(hooks), listScript(names)].join("\n");
  const answer = await runOnHost(host, script, 60);
  const middle = answer.indexOf("\nend\n") + "\nend".length;
  const { now, hooks: reports } = parseReport(host.name, answer.slice(0, middle), hooks);
  const all = runsIn(host, answer.slice(middle + 1));
  return reports.map((report) => {
    const { name } = report;
    const runs = all.filter(({ hook }) => hook === name);
    const [state, text] = stateOf(report, runs, commit, now);
    const [, time, size] = new RegExp(`^page ${name} (\\d+) (\\d+)$`, "m").exec(answer) ?? [];
    // As nginx makes it.
    const etag = time && `"${Number(time).toString(16)}-${Number(size).toString(16)}"`;
    return { host: host.name, hook: name, state, text, ...(etag && { etag }) };
  });
}

function stateOf(report: HookReport, runs: readonly Run[], commit: string, now: string): [State, string] {
  const { status, delivery, pending } = report;
  const { deployed, failing } = status ?? {};
  const own = runs.filter((run) => brings(run, commit));
  const [run] = own;
  const made = own.find(({ result }) => result === "published" || result === "rolled back");
  const at = (time: string, what: string): string => `${age(time, now)}${what}`;
  if (deployed?.commit?.startsWith(commit)) return ["published", at(deployed.at, ` as ${deployed.release}`)];
  if (deployed && made?.release && made.release <= deployed.release) {
    const since = made.release === deployed.release ? "" : `; now ${deployed.release} is`;
    return ["published", at(made.at, ` as ${made.release} with ${made.commit?.slice(0, 7)}${since}`)];
  }
  if (run?.result === "running") return ["building", at(run.at, ": npx pushgate deploys --follow shows how")];
  if (made && run === made) return ["rolled back", at(made.at, ` as ${made.release}; now ${deployed?.release} is`)];
  const next = failing === undefined ? "" : `the next attempt is by ${failing.next}`;
  if (run && run.result !== "nothing") return ["failed", at(run.at, `: ${run.reason}${next && `; ${next}`}`)];
  if (run) return ["ignored", at(run.at, `: ${run.reason}`)];
  if (pending.deliveries + pending.requests + pending.taken > 0) {
    const [ahead] = runs.filter(({ result }) => result === "running");
    const behind = ahead && `behind the build of ${ahead.commit?.slice(0, 7)}, begun ${age(ahead.at, now)}`;
    return ["waiting", [pendingText(report), behind ?? next].filter(Boolean).join("; ")];
  }
  const newest =
    delivery && `, and the newest delivery came ${at(delivery.at, `: ${delivery.status} ${delivery.reason}`)}`;
  return ["not delivered", `none of the last 50 runs has it${newest ?? ""}`];
}

async function seen(hook: string, url: string, on: readonly Found[], purges: boolean): Promise<Page> {
  const page = (text: string, isNew = false): Page => ({ hook, url, text, isNew });
  const sent = exchange({ url, headers: { accept: "*/*" } }, { seconds: 10, bytes: 1 });
  const answer = await sent.catch((error: Error) => error);
  if (answer instanceof Error) return page(`no answer: ${answer.message}`);
  const { status, headers } = answer;
  const of = (name: string): string => printable(String(headers[name] ?? "none"), 100);
  const etag = of("etag").replace(/^W\//, "");
  const same = on.filter((one) => one.etag === etag);
  const way = headers["cf-ray"] === undefined ? "not through Cloudflare" : "through Cloudflare";
  const known = `${status} ${way}, cf-cache-status ${of("cf-cache-status")}, ETag ${of("etag")}`;
  if (same.length > 0) {
    const isNew = same.some(({ state }) => state === "published");
    return page(`${known}, as on ${same.map(({ host }) => host).join(" and ")}`, isNew);
  }
  if (headers.etag === undefined && status === 200)
    return page(`${known}: Cloudflare changes the page, so it cannot be compared`, true);
  const fix = purges
    ? "npx pushgate status shows whether the purge of site.purge has failed"
    : "Purge it at Cloudflare, and set site.purge: true, which does so after each publish";
  return page(`${known}: no host has this page. ${fix}.`);
}

const commitId = valued(commitShape, "Use at least 7 digits of a commit's id.", String);
const path = valued(/^\/(?!\/)[!-~]*$/, "Use a path of the site, such as /posts/.", String);

export const where = command({
  takes: ["host", "json"],
  examples: [
    ["where $(git rev-parse HEAD)", "delivered, waiting, building, failed or published; exits 1 unless it is seen"],
    ["where 0123456 --page /posts/map/", "compares this page, not the site's first"],
  ],
})
  .argument("<commit>", "at least 7 digits of its id", commitId)
  .option("--page <path>", "the page that is requested from Cloudflare", path, "/")
  .action(async (commit: string, { page, ...options }: Options & { page: string }) => {
    const { hosts, hooksAndPreviews: hooks } = await readStack(ofStack(options));
    const sites = hooks.filter(({ site }) => site);
    const { values, faults } = await ended(targets(hosts, options).map((host) => foundOn(host, sites, commit, page)));
    const all = values.flat();
    const known = new Set(all.filter(({ state }) => !/^(waiting|not delivered)$/.test(state)).map(({ hook }) => hook));
    const found = all.filter(({ hook }) => known.size === 0 || known.has(hook));
    // The path of a preview begins with its branch.
    const served = sites.filter(({ name, previews }) => known.has(name) && !previews);
    const pages = await Promise.all(
      served.flatMap(({ name, site }) => {
        const on = found.filter(({ hook }) => hook === name);
        return site?.hostname ? [seen(name, new URL(page, `https://${site.hostname}`).href, on, site.purge)] : [];
      }),
    );
    const [hook, ...others] = new Set(found.flatMap((one) => (one.state === "not delivered" ? [one.hook] : [])));
    const isMissing = hook !== undefined && found.every(({ state }) => state !== "waiting");
    const cause = isMissing && (await orUserError(lastFailed({ ...options, ...(others.length === 0 && { hook }) })));
    const { found: trace, text: said } =
      cause instanceof UserError ? { found: [], text: `trace: ${cause.message}` } : cause || {};
    if (options.json) {
      const notTraced = cause instanceof UserError ? { notTraced: cause.message } : {};
      console.log(JSON.stringify({ found, pages, trace, ...notTraced }, null, 2));
    } else {
      for (const { host, hook, state, text } of found) console.log(`${hook} on ${host}: ${state}: ${text}`);
      for (const { url, text } of pages) console.log(`${url}: ${text}`);
      if (said) console.log(said);
    }
    process.exitCode = found.every(({ state }) => state === "published") && pages.every(({ isNew }) => isNew) ? 0 : 1;
    if (faults.length > 0) throw new UserError(faults.join("\n"));
  });
