/** docs/grafana: what it queries is what the receiver exports, and each alert is active for its cause alone. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { createMetrics } from "../../../service/metrics/metrics.ts";
import { needs } from "../../infra/host/namespace.ts";
import { onFolder, folder as root } from "../own-folder.ts";
import { dashboard, rows } from "./dashboard.ts";

const docs = (name: string) => new URL(`../../../docs/grafana/${name}`, import.meta.url).pathname;
type Rule = { alert: string; expr: string; annotations: { summary: string } };
const rules: Rule[] = parse(readFileSync(docs("alerts.yml"), "utf8")).groups[0].rules;

test("docs/grafana/dashboard.json is made of the table, and has no more panels than a screen", async () => {
  expect(dashboard.panels!.length).toBeLessThanOrEqual(12);
  await expect(`${JSON.stringify(dashboard, null, 2)}\n`).toMatchFileSnapshot(docs("dashboard.json"));
});

describe("with what the receiver exports", () => {
  onFolder();

  /** The labels of each metric of a hook with a site; `up` is Prometheus' own. */
  async function exported() {
    mkdirSync(join(root, "site"));
    const statusFile = join(root, "status.json");
    writeFileSync(statusFile, JSON.stringify({ runs: {}, succeeded: new Date().toISOString() }));
    const hooks = [{ name: "site", gitHost: "github", branch: "main", statusFile } as const];
    const labels: Record<string, Set<string>> = { up: new Set(["job"]) };
    for (const line of (await createMetrics({ spool: root, hooks }).collect()).split("\n")) {
      const [, metric, pairs = ""] = /^(pushgate_\w+)\{(.*)\} /.exec(line) ?? [];
      if (metric)
        labels[metric] = new Set([
          ...(labels[metric] ?? []),
          ...[...pairs.matchAll(/(\w+)="/g)].map(([, label]) => label!),
        ]);
    }
    return labels;
  }

  /** Prometheus adds these to each. */
  const added = ["instance", "job"];
  const faultsOf = (labels: Record<string, Set<string>>, expr: string, shown: string): string[] =>
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

  test("the dashboard and the rules name each metric, and only metrics and labels that there are", async () => {
    const labels = await exported();
    const used = [
      ...rows.map(([, , expr, legend]) => [expr, legend] as const),
      ...rules.map(({ expr, annotations }) => [expr, annotations.summary] as const),
    ];
    expect(used.flatMap(([expr, shown]) => faultsOf(labels, expr, shown))).toEqual([]);
    const all = used.map(([expr]) => expr).join();
    expect(Object.keys(labels).filter((metric) => !all.includes(metric))).toEqual([]);
    expect([
      ...faultsOf(labels, 'sum by (reason) (pushgate_builds_total{hook=~"x"})', "{{ $labels.result }}"),
      ...faultsOf(labels, "pushgate_runs_total", ""),
    ]).toEqual(["pushgate_builds_total has no reason", "pushgate_runs_total is not exported"]);
  });
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
