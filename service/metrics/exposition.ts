/** Prometheus' text format, version 0.0.4. https://prometheus.io/docs/instrumenting/exposition_formats */

/**
 * One metric. Label values need no escapes: they are names of hooks, which have letters, digits and hyphens only, and
 * words of this folder. No text of a sender gets here.
 */
export type Metric = {
  readonly name: `pushgate_${string}`;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
};
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

export const contentType = "text/plain; version=0.0.4; charset=utf-8";

/** A metric without a sample is left out. */
export const exposition = (metrics: readonly Metric[]): string =>
  metrics
    .filter(({ samples }) => samples.length > 0)
    .flatMap(({ name, type, help, samples }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...samples.map(([labels, value]) => `${name}${braces(labels)} ${value}`),
    ])
    .map((line) => `${line}\n`)
    .join("");

const braces = (labels: Sample[0]): string =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${value}"`)
    .join(",")}}`;
