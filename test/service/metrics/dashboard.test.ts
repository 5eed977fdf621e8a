/** docs/grafana: what it queries is what docs/metrics.md has, and each alert is active for its cause alone. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { needs } from "../../infra/host/namespace.ts";
import { dashboard, rows } from "./dashboard.ts";

const docs = (name: string) => new URL(`../../../docs/grafana/${name}`, import.meta.url).pathname;
type Rule = { alert: string; expr: string; annotations: { summary: string } };
const rules: Rule[] = parse(readFileSync(docs("alerts.yml"), "utf8")).groups[0].rules;

test("docs/grafana/dashboard.json is made of the table", async () => {
  await expect(`${JSON.stringify(dashboard, null, 2)}\n`).toMatchFileSnapshot(docs("dashboard.json"));
});

/** The labels of each metric of a hook with a site; `up` is Prometheus' own. collected.test.ts has that the page is right. */
const page = readFileSync(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
const labels: Record<string, Set<string>> = Object.fromEntries([
  ["up", new Set(["job"])],
  ...[...page.matchAll(/^\| `(pushgate_\w+)` \| \w+ \| (.*?) \|/gm)].map(([, metric, listed]) => [
    metric,
    new Set([...listed!.matchAll(/\w+/g)].map(([label]) => label)),
  ]),
]);

/** Prometheus adds these to each. */
const added = ["instance", "job"];
const faultsOf = (expr: string, shown: string): string[] =>
  [...expr.matchAll(/\b(up|pushgate_\w+)(?:\{(.*?)\})?/g)].flatMap(([, metric, selected = ""]) => {
    const own = labels[metric!];
    if (own === undefined) return [`${metric} is not exported`];
    const [, by] = /\bby \((\w+)\)/.exec(expr) ?? [];
    const named = [...`${selected} `.matchAll(/(\w+)=~?"/g), ...shown.matchAll(/\{\{(?: \$labels\.)?(\w+) ?\}\}/g)];
    const used = [...named.map(([, label]) => label!), ...(by === undefined ? [] : [by])];
    return used
      .filter((label) => !own.has(label) && !added.includes(label))
      .map((label) => `${metric} has no ${label}`);
  });

test("the dashboard and the rules name each metric, and only metrics and labels that there are", () => {
  const used = [
    ...rows.map(([, , expr, legend]) => [expr, legend] as const),
    ...rules.map(({ expr, annotations }) => [expr, annotations.summary] as const),
  ];
  expect(used.flatMap(([expr, shown]) => faultsOf(expr, shown))).toEqual([]);
  const all = used.map(([expr]) => expr).join();
  expect(Object.keys(labels).filter((metric) => !all.includes(metric))).toEqual([]);
  expect([
    ...faultsOf('sum by (reason) (pushgate_builds_total{hook=~"x"})', "{{ $labels.result }}"),
    ...faultsOf("pushgate_runs_total", ""),
  ]).toEqual(["pushgate_builds_total has no reason", "pushgate_runs_total is not exported"]);
});
describe("promtool", () => {
  needs("promtool");

  test("finds no fault in the rules, and each alert is active for its cause alone", () => {
    const tests = new URL("alerts.yml", import.meta.url).pathname;
    expect(execFileSync("promtool", ["check", "rules", docs("alerts.yml")], { encoding: "utf8" })).toContain(
      `${rules.length} rules found`,
    );
    expect(execFileSync("promtool", ["test", "rules", tests], { encoding: "utf8" })).toContain("SUCCESS");
    const text = readFileSync(tests, "utf8");
    expect(rules.filter(({ alert }) => !text.includes(alert))).toEqual([]);
  });
});
