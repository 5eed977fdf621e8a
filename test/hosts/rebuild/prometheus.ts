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

/** The values that Prometheus has, by their labels; undefined while it starts: it rejects a query with 503 and text. */
export async function valuesOf(host: Host, query: string): Promise<Record<string, number> | undefined> {
  const curl = `curl -fsS --get --data-urlencode 'query=${query}' http://127.0.0.1:9090/api/v1/query || echo '{}'`;
  const { data } = JSON.parse(await host.read(curl)) as {
    data?: { result: { metric: Record<string, string>; value: [number, string] }[] };
  };
  const named = data?.result.map(({ metric: { instance: _, job: __, __name__: ___, ...labels }, value }) => [
    Object.values(labels).sort().join(" "),
    Number(value[1]),
  ]);
  return named && Object.fromEntries(named);
}
