/**
 * The metrics on a host, as docs/metrics.md says: its nginx file, its commands and its Prometheus configuration are
 * typed as they are there, and a real Prometheus scrapes. The socket follows those for deliveries, and leaves with them.
 */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { metricsGroup } from "../../../infra/host/receiver/receiver.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { hostEntry } from "../world.ts";
import { deployedRebuild } from "./deployed.ts";
import { front } from "./site.ts";
import { idle, published } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

beforeAll(async () => {
  rebuild = await deployedRebuild("metrics");
  ({ host } = rebuild);
  await host.inside("apt-get -qq -y --no-install-recommends install prometheus", { timeout: 120_000 });
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const page = readFileSync(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
/** The blocks of the page in a language, in their order. */
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(([, text]) => text!);

const scrape = () => host.read(`curl -sS --fail --unix-socket ${paths.metrics} http://localhost/metrics`);
const isActive = async (unit: string) =>
  (await host.inside(`systemctl is-active '${unit}'`, { check: false })).stdout.trim();

/** What Prometheus answers to a query: the values by their labels. */
async function query(text: string): Promise<Record<string, number>> {
  const answer = await host.read(
    `curl -sS --get --data-urlencode '${`query=${text}`.replaceAll("'", `'\\''`)}' http://127.0.0.1:9090/api/v1/query`,
  );
  const { data } = JSON.parse(answer) as {
    data: { result: { metric: Record<string, string>; value: [number, string] }[] };
  };
  const named = data.result.map(({ metric: { instance: _, job: __, __name__: ___, ...labels }, value }) => [
    Object.values(labels).sort().join(" "),
    Number(value[1]),
  ]);
  return Object.fromEntries(named);
}

/** Polls until Prometheus has scraped this value. */
const scraped = (text: string, fits: (found: Record<string, number>) => boolean) =>
  until(
    `Prometheus has ${text}`,
    async () => {
      const found = await query(text).catch((): Record<string, number> => ({}));
      return fits(found) ? found : undefined;
    },
    { timeout: 90_000 },
  );

test("promtool finds no fault in the metrics", async () => {
  const { stdout, stderr } = await host.inside(
    `curl -sS --fail --unix-socket ${paths.metrics} http://localhost/metrics | promtool check metrics`,
  );
  expect(stdout + stderr).toBe("");
});

test("the page names each metric that the host has, with its type, and each reason and result", async () => {
  const text = await scrape();
  const rows = [...page.matchAll(/^\| `(pushgate_\w+)` \| (\w+) \|/gm)].map(([, name, type]) => `${name} ${type}`);
  const types = [...text.matchAll(/^# TYPE (.*)$/gm)].map(([, type]) => type);
  expect(types.sort()).toEqual(rows.sort());
  for (const label of ["reason", "result"]) {
    const [, listed = ""] = new RegExp(`^- \`${label}\` is one of ([^.]*)\\.`, "ms").exec(page) ?? [];
    const words = [...listed.matchAll(/`(\w+)`/g)].map(([, word]) => word);
    const found = [...text.matchAll(new RegExp(`${label}="(\\w+)"`, "g"))].map(([, word]) => word);
    expect([...new Set(found)].sort()).toEqual(words.sort());
  }
});

describe("who may connect:", () => {
  const as = (account: string) =>
    host.inside(`runuser -u ${account} -- curl -sS --fail --unix-socket ${paths.metrics} http://localhost/metrics`, {
      check: false,
    });

  test("no account but root, until it is a member of the group", async () => {
    expect((await as("www-data")).code).not.toBe(0);
    expect((await as("guest")).stderr).toMatch(/Permission denied|Couldn't connect|Failed to connect/);
    expect(await host.read(`getent group ${metricsGroup}`)).toMatch(/:$/);
  });

  test("any account with another mode", async () => {
    await host.inside(`chmod 0666 ${paths.metrics}`);
    expect((await as("guest")).code).toBe(0);
    await host.inside(`chmod 0660 ${paths.metrics}`);
  });
});

test("a real Prometheus scrapes through nginx with the page's text, and sees a push from the 202 to the build", async () => {
  const [server] = blocks("nginx");
  await host.writeFile("/etc/nginx/conf.d/metrics.conf", server!);
  for (const commands of blocks("sh")) await host.inside(`set -e\n${commands}`);
  const [job, rules] = blocks("yaml");
  const configuration = `global: { scrape_interval: 1s }\nrule_files: [pushgate.yml]\nscrape_configs:\n${job}`;
  await host.writeFile("/etc/prometheus/pushgate.yml", rules!);
  await host.writeFile("/etc/prometheus/prometheus.yml", configuration);
  const { stdout } = await host.inside("promtool check config /etc/prometheus/prometheus.yml");
  expect(stdout).toMatch(/4 rules found/);
  await host.inside("systemctl restart prometheus");
  await scraped('up{job="pushgate"}', (found) => found[""] === 1);

  const before = await scraped("pushgate_deliveries_accepted_total", (found) => found.site !== undefined);
  const commit = await rebuild.push({ "layouts/index.html": front("metrics") });
  await published(host, commit);
  await idle(host);
  await rebuild.world.deliver({ secret: "another-secret-0123456789-abcdefghij" });
  await scraped("pushgate_deliveries_accepted_total", (found) => found.site === before.site! + 1);
  await scraped('pushgate_requests_rejected_total{reason="signature"}', (found) => found["signature site"] === 1);
  await scraped('pushgate_builds_total{result="published"}', (found) => found["published site"]! >= 2);
  expect(await query("pushgate_spool_deliveries")).toEqual({ site: 0, docs: 0 });
  await rebuild.request("tick", "root", "docs");
  await idle(host, "docs");
  await scraped("time() - pushgate_last_success_timestamp_seconds", (found) => found.docs! < 60);
  expect(await query("time() - pushgate_last_success_timestamp_seconds < bool 600")).toEqual({ site: 1, docs: 1 });
  expect(await query('ALERTS{alertname=~"Pushgate(Down|BuildFails|SiteIsOld)"}')).toEqual({});
});

test("the preview is clean with the page's text on the host", async () => {
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});

describe("the sockets for deliveries are closed by a person or the guard:", () => {
  const deliveries = () =>
    host.read("systemctl list-units --plain --no-legend --state=active 'pushgate-receiver-*.socket'");
  const close = () => host.inside("systemctl stop 'pushgate-receiver-*.socket' pushgate-receiver.service");
  const open = () => host.inside("systemctl start pushgate-receiver.service");

  test("the socket for metrics closes with them, and a scrape opens none", async () => {
    await close();
    expect(await isActive(units.metricsSocket)).toBe("inactive");
    expect(
      (await host.inside(`curl -sS --unix-socket ${paths.metrics} http://localhost/metrics`, { check: false })).code,
    ).not.toBe(0);
    expect(await deliveries()).toBe("");
    await open();
    expect(await isActive(units.metricsSocket)).toBe("active");
    expect(await scrape()).toContain("pushgate_deliveries_accepted_total");
  });

  test("without PartOf= a scrape would open them", async () => {
    const unit = `${paths.units}/${units.metricsSocket}`;
    const text = await host.readFile(unit);
    await host.writeFile(unit, text.replace(/^PartOf=.*\n/m, ""));
    // Its scrape in the middle of the stop would cancel the stop.
    await host.inside("systemctl daemon-reload && systemctl stop prometheus");
    await close();
    expect(await deliveries()).toBe("");
    await scrape();
    expect(await deliveries()).toContain("pushgate-receiver-github.socket");
    await host.writeFile(unit, text);
    await host.inside("systemctl daemon-reload && systemctl start prometheus");
  });
});

describe("drift:", () => {
  test.each([
    ["a stopped socket", `systemctl stop ${units.metricsSocket}`],
    ["a removed path", `rm ${paths.metrics}`],
    [
      "a drop-in",
      `mkdir -p ${paths.units}/${units.metricsSocket}.d && printf '[Socket]\\nSocketMode=0666\\n' >${paths.units}/${units.metricsSocket}.d/x.conf && systemctl daemon-reload`,
    ],
  ])("up repairs %s", async (_, change) => {
    await host.inside(change);
    const preview = await rebuild.world.stack.preview("--expect-no-changes");
    expect(preview.code).not.toBe(0);
    await rebuild.up();
    expect(await host.read(`stat -c '%a %U:%G' ${paths.metrics}`)).toBe(`660 root:${metricsGroup}`);
    expect(await scrape()).toContain("pushgate_deliveries_accepted_total");
    expect(await rebuild.world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  });
});

test("after a reboot the receiver is scraped again", async () => {
  await host.reboot();
  await scraped('up{job="pushgate"}', (found) => found[""] === 1);
});

test("absent removes socket, folder and group", async () => {
  rebuild.world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  await rebuild.up();
  expect(await host.read(`ls -d ${dirname(paths.metrics)} ${paths.units}/pushgate-* 2>/dev/null || true`)).toBe("");
  expect(await host.read(`getent group ${metricsGroup} || true`)).toBe("");
  expect(await host.read(`systemctl list-units --all --plain --no-legend 'pushgate-metrics*'`)).toBe("");
});
