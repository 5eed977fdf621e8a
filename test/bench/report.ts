/** The tables and the plots of docs/benchmark.md. */
import { readFileSync, writeFileSync } from "node:fs";
import { type Kind, kinds } from "./deliveries.ts";
import type { Measured } from "./measure.ts";

export type Report = {
  readonly node: string;
  readonly rounds: number;
  readonly servers: readonly Measured[];
  /** Milliseconds until an Express app without a route accepts a connection. */
  readonly expressEmpty: number;
};

type Figures = Pick<Report, "servers">;

const names = Object.keys(kinds) as Kind[];
/** A Markdown table with a column for each kind of request. */
function tableOf(title: string, rows: readonly (readonly string[])[], ...more: string[]): string {
  const heads = [...names.map((kind) => kinds[kind]), ...more];
  const lines = [[title, ...heads], ["-", ...heads.map(() => "-:")], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Requests per second of the first server, then ratios to it. */
export function table({ servers }: Figures): string {
  const rows = servers.map(({ label, rows, resident }, i) => [
    label,
    ...names.map((kind) => (i === 0 ? Math.round(rows[kind].rate).toLocaleString("en") : rows[kind].ratio.toFixed(2))),
    `${Math.round(resident)} MiB`,
  ]);
  return tableOf("", rows, "resident");
}

/** How long a server takes to start, in words. */
export function starts({ servers, expressEmpty }: Report): string {
  const each = servers.map(({ label, coldStart }) => `${label} ${Math.round(coldStart)}`);
  const receiver = servers.find(({ name }) => name === "receiver")!.coldStart;
  return (
    `Cold start, ms: ${each.join(", ")}. An Express app without a route starts in ${Math.round(expressEmpty)} ms: the ` +
    `receiver takes ${(receiver / expressEmpty).toFixed(2)} of that.`
  );
}

/** Milliseconds: half of the answers, and 99 of 100. */
export function times({ servers }: Figures): string {
  const rows = servers.map(({ label, rows }) => [
    label,
    ...names.map((kind) => `${rows[kind].p50.toFixed(2)} / ${rows[kind].p99.toFixed(1)}`),
  ]);
  return tableOf("p50 / p99, ms", rows);
}

/** What neighbours on the computer change least. */
export function cpu({ servers }: Figures): string {
  const rows = servers.map(({ label, rows }) => [label, ...names.map((kind) => rows[kind].cpu.toFixed(0))]);
  return tableOf("µs of CPU per request", rows);
}

/** Bars of ratios, a group for each kind. */
export function plot({ servers }: Figures): string {
  const [left, bar, gap, top] = [250, 12, 26, 30];
  const most = Math.max(1, ...servers.flatMap(({ rows }) => names.map((kind) => rows[kind].ratio)));
  const x = (ratio: number) => Math.round((ratio / most) * 380);
  const group = servers.length * bar + gap;
  const height = top + names.length * group;
  const parts: string[] = [];
  for (const [i, kind] of names.entries()) {
    const y = top + i * group;
    parts.push(`<text x="8" y="${y - 5}" font-weight="bold">${kinds[kind]}</text>`);
    for (const [j, { label, rows }] of servers.entries()) {
      const at = y + j * bar;
      const { ratio } = rows[kind];
      const fill = label.startsWith("pushgate") ? "#2563eb" : "#9ca3af";
      parts.push(
        `<text x="${left - 6}" y="${at + 9}" text-anchor="end">${label}</text>`,
        `<rect x="${left}" y="${at + 1}" width="${x(ratio)}" height="${bar - 2}" fill="${fill}"/>`,
        `<text x="${left + x(ratio) + 4}" y="${at + 9}">${ratio.toFixed(2)}</text>`,
      );
    }
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 ${height}" font-family="sans-serif" font-size="10">
<rect width="100%" height="100%" fill="#fff"/>
<line x1="${left + x(1)}" x2="${left + x(1)}" y1="8" y2="${height - gap + 6}" stroke="#111" stroke-dasharray="3"/>
${parts.join("\n")}
</svg>
`;
}

/** Replaces the figures of docs/benchmark.md, and the plot beside the page. */
export function store(figures: string, report: Figures): void {
  const docs = new URL("../../docs/", import.meta.url);
  const page = new URL("benchmark.md", docs);
  const between = /(?<=<!-- figures -->\n)[\s\S]*?(?=<!-- end -->)/;
  const text = readFileSync(page, "utf8");
  if (!between.test(text)) throw new Error(`docs/benchmark.md has no <!-- figures -->`);
  writeFileSync(
    page,
    text.replace(between, () => `\n${figures}\n\n`),
  );
  writeFileSync(new URL("benchmark.svg", docs), plot(report));
}
