/** A real Prometheus on a host, set up with the commands and texts of docs/metrics.md and the rules beside it. */
import { readFileSync } from "node:fs";
import type { Host } from "../lab/host.ts";

const docs = (name: string) => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");
const metricsPage = docs("metrics.md");

/** The blocks of docs/metrics.md in a language, in their order. */
const blocks = (language: string): string[] =>
  [...metricsPage.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(([, block]) => block!);

/** Returns what promtool says of the configuration. */
export async function startPrometheus(host: Host): Promise<string> {
  await host.inside("apt-get -qq -y --no-install-recommends install prometheus", { timeout: 120_000 });
  await host.writeFile("/etc/nginx/conf.d/metrics.conf", blocks("nginx")[0]!);
  for (const commands of blocks("sh")) await host.inside(`set -e\n${commands}`);
  const [job, ruleFiles] = blocks("yaml");
  const configuration = `global: { scrape_interval: 1s }\n${ruleFiles}scrape_configs:\n${job}`;
  await host.writeFile("/etc/prometheus/pushgate.yml", docs("grafana/alerts.yml"));
  await host.writeFile("/etc/prometheus/prometheus.yml", configuration);
  return host.read("promtool check config /etc/prometheus/prometheus.yml && systemctl restart prometheus");
}

type Series = { readonly metric: Record<string, string> };
export type Instant = Series & { readonly value: [number, string] };
export type Range = Series & { readonly values: [number, string][] };

/** undefined while Prometheus starts: it rejects a query with 503 and text. */
export async function queried<Found extends Instant | Range>(host: Host, what: "query" | "query_range", given: object) {
  const values = Object.entries(given).map(([name, value]) => `--data-urlencode '${name}=${value}'`);
  const answer = await host.read(
    `curl -fsS --get ${values.join(" ")} http://127.0.0.1:9090/api/v1/${what} || echo '{}'`,
  );
  return (JSON.parse(answer) as { data?: { result: Found[] } }).data?.result;
}
