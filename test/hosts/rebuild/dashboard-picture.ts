/**
 * `sudo npm exec -- node test/hosts/rebuild/dashboard-picture.ts`: writes docs/grafana/dashboard.svg, the panels of
 * docs/grafana/dashboard.json with what a real Prometheus scraped from a host during pushes, faults and attacks. Grafana
 * itself draws them otherwise.
 */
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { units } from "../../../infra/host/paths.ts";
import { rows } from "../../service/metrics/dashboard.ts";
import { bootHost } from "../lab/host.ts";
import { withLab } from "../lab/lab.ts";
import { step } from "../lab/process.ts";
import { ready } from "../ready.ts";
import { queried, type Range, startPrometheus } from "./prometheus.ts";
import { front } from "./site.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

const [seconds, every] = [300, 3];
const [width, height, left, line] = [300, 170, 34, 14];
const colors = ["#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626"];
const escaped = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const words = (x: number, y: number, text: string, more = "") =>
  `<text x="${x}" y="${y}" ${more}>${escaped(text)}</text>`;

/** What happens meanwhile: site is pushed to, and its builder pauses; docs fails and recovers; others send rubbish. */
async function acts({ host, world, push }: Rebuild): Promise<void> {
  const later = Date.now() + seconds * 1000;
  for (let i = 0; Date.now() < later; i++) {
    await push({ "layouts/index.html": front(`${i}`) });
    await push({ "layouts/index.html": i % 4 === 1 ? "{{ nothing }}" : front(`${i}`) }, "docs");
    await world.deliver({ event: "ping" });
    for (let j = 0; j < i % 3; j++) await world.deliver({ secret: "another-secret-0123456789-abcdefghij" });
    const waits = i % 4 === 2;
    if (waits) await host.inside(`systemctl stop ${units.buildPath("site")}`);
    for (let j = 0; waits && j < 3; j++) await push({ "static/n.txt": `${i} ${j}` }).then(() => sleep(4_000));
    if (waits) await host.inside(`systemctl start ${units.buildPath("site")}`);
    await sleep(8_000);
  }
}

function panel(
  [title, , , legend, { unit, redFrom, redBelow } = {}]: (typeof rows)[number],
  found: Range[],
  i: number,
): string {
  const named = found.map(({ metric, values }) => ({
    name: legend.replace(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? ""),
    values: values.map(([time, value]) => [time, Number(value)] as const),
  }));
  const last = named.map(({ name, values }) => ({ name, value: values.at(-1)?.[1] ?? 0 }));
  const isRed = (value: number) =>
    value >= (redFrom ?? Number.POSITIVE_INFINITY) || value < (redBelow ?? Number.NEGATIVE_INFINITY);
  const figures = last.flatMap(({ name, value }, j) => [
    words(
      width / 2,
      66 + j * 52,
      `${Math.round(value)} ${unit ?? ""}`,
      `font-size="30" text-anchor="middle" fill="${isRed(value) ? colors[4] : colors[2]}"`,
    ),
    words(width / 2, 82 + j * 52, name, 'text-anchor="middle"'),
  ]);
  const most = Math.max(1, ...named.flatMap(({ values }) => values.map(([, value]) => value)));
  const [bottom, begin] = [height - 2 * line - 8, named[0]?.values[0]?.[0] ?? 0];
  const lines = named.flatMap(({ name, values }, j) => {
    const path = values.map(([time, value], k) => {
      const isNext = time - (values[k - 1]?.[0] ?? 0) <= every;
      const x = Math.round(left + ((time - begin) / seconds) * (width - left - 12));
      return `${isNext ? "L" : "M"}${x} ${Math.round(bottom - (value / most) * (bottom - 30))}`;
    });
    const [column, row] = [j % 3, Math.floor(j / 3)];
    return [
      `<path d="${path.join("")}" fill="none" stroke="${colors[j % 5]}" stroke-width="1.5"/>`,
      words(left + column * 92, bottom + line * (1 + row) + 2, name, `fill="${colors[j % 5]}"`),
    ];
  });
  const axis = [
    `<path d="M${left} 30V${bottom}H${width - 12}" fill="none" stroke="#999"/>`,
    words(left - 4, 34, `${Math.ceil(most)}${unit ?? ""}`, 'text-anchor="end"'),
  ];
  return `<g transform="translate(${(i % 3) * width} ${Math.floor(i / 3) * height})">
<rect x="3" y="3" width="${width - 6}" height="${height - 6}" fill="#fff" stroke="#ddd"/>${words(10, 18, title, 'font-weight="bold"')}
${(redFrom ?? redBelow) === undefined ? [...axis, ...lines].join("\n") : figures.join("\n")}
</g>`;
}

const release = await ready("dashboard-picture", "trixie");
await withLab({ releases: [release] }, async () => {
  const host = await step(`boot ${release}`, () => bootHost({ name: "picture", release, variant: "packages" }));
  const rebuild = await buildRebuild(host);
  await step("up, and first builds", () => rebuild.start());
  await startPrometheus(host);
  const start = Math.floor(Date.now() / 1000);
  await step("pushes, faults and attacks", () => acts(rebuild));
  const drawn: string[] = [];
  for (const [i, row] of rows.entries()) {
    const query = row[2].replaceAll("$hook", ".*").replaceAll("$__rate_interval", "15s");
    const found = await queried<Range>(host, "query_range", { query, start, end: start + seconds, step: every });
    drawn.push(panel(row, found ?? [], i));
  }
  const [w, h] = [3 * width, 3 * height];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" font-family="sans-serif" font-size="10">
<rect width="100%" height="100%" fill="#f4f5f5"/>
${drawn.join("\n")}
</svg>
`;
  writeFileSync(new URL("../../../docs/grafana/dashboard.svg", import.meta.url), svg);
  console.log(`docs/grafana/dashboard.svg: ${svg.length} bytes`);
  await rebuild.close();
  await host.kill();
});
