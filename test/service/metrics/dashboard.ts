/**
 * docs/grafana/dashboard.json, which `npm run fix` writes: a table of panels, in the types of Grafana's schema. No object of
 * these types has a spread, which would take properties that the schema does not know.
 */
import { type Dashboard, type DataSourceRef, type FieldConfig, type Panel, ThresholdsMode } from "@grafana/schema";

/** A figure turns red from a value on, or below it; without either the panel shows lines. */
type Row = readonly [
  title: string,
  description: string,
  expr: string,
  legend: string,
  more?: { readonly unit?: "s"; readonly redFrom?: number; readonly redBelow?: number },
];

const [of, on] = ['{hook=~"$hook"}', "{{hook}} on {{instance}}"];
const increase = (metric: string, by: string): string => `sum by (${by}) (increase(${metric}[$__rate_interval]))`;

export const rows: readonly Row[] = [
  [
    "Receiver",
    "0: it does not answer, or the guard has closed its sockets.",
    'up{job="pushgate"}',
    "{{instance}}",
    { redBelow: 1 },
  ],
  [
    "Failed runs",
    "Since the last good one. npx pushgate deploys --failed has the reasons.",
    `pushgate_build_failures${of}`,
    on,
    { redFrom: 1 },
  ],
  [
    "Since the last good run",
    "One that published a build or had nothing to publish.",
    `time() - pushgate_last_success_timestamp_seconds${of}`,
    on,
    { unit: "s", redFrom: 3600 },
  ],
  ["Runs", "Of the builder, by how they ended.", increase(`pushgate_builds_total${of}`, "result"), "{{result}}"],
  [
    "Deliveries accepted",
    "Answered with 202.",
    increase(`pushgate_deliveries_accepted_total${of}`, "hook"),
    "{{hook}}",
  ],
  [
    "Deliveries ignored",
    "Signed, and no reason to build: a ping, another branch.",
    increase(`pushgate_deliveries_ignored_total${of}`, "hook"),
    "{{hook}}",
  ],
  [
    "Requests rejected",
    "By the receiver, with those to no hook. npx pushgate trace has what other layers reject.",
    `${increase("pushgate_requests_rejected_total", "reason")} > 0`,
    "{{reason}}",
  ],
  ["Deliveries that wait", "Accepted, and not yet taken by the builder.", `pushgate_spool_deliveries${of}`, on],
  [
    "Age of the oldest that waits",
    "Longer than a build: the builder pauses, or does not run.",
    `pushgate_spool_oldest_seconds${of}`,
    on,
    { unit: "s" },
  ],
];

const datasource: DataSourceRef = { type: "prometheus", uid: "${datasource}" };

function panelOf([title, description, expr, legendFormat, { unit, redFrom, redBelow } = {}]: Row, i: number): Panel {
  const from = redFrom ?? redBelow;
  const isFigure = from !== undefined;
  const [low, high] = redBelow === undefined ? ["green", "red"] : ["red", "green"];
  const steps = [
    { color: low!, value: null },
    { color: high!, value: from ?? null },
  ];
  const defaults: FieldConfig = { unit: unit ?? "short", min: 0 };
  if (isFigure) defaults.thresholds = { mode: ThresholdsMode.Absolute, steps };
  return {
    id: i + 1,
    type: isFigure ? "stat" : "timeseries",
    title,
    description,
    datasource,
    gridPos: { x: (i % 3) * 8, y: Math.floor(i / 3) * 8, w: 8, h: 8 },
    fieldConfig: { defaults, overrides: [] },
    targets: [{ refId: "A", expr, legendFormat }],
  };
}

export const dashboard: Dashboard = {
  uid: "pushgate",
  title: "pushgate",
  schemaVersion: 39,
  refresh: "1m",
  time: { from: "now-24h", to: "now" },
  templating: {
    list: [
      { name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus" },
      {
        name: "hook",
        type: "query",
        datasource,
        query: "label_values(pushgate_deliveries_accepted_total, hook)",
        refresh: 2,
        multi: true,
        includeAll: true,
        allValue: ".*",
        current: { text: "All", value: "$__all" },
      },
    ],
  },
  panels: rows.map(panelOf),
};
