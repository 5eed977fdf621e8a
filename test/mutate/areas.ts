/** What `npm run mutate` changes, and the tests that have to notice. */

export type Area = {
  readonly name: string;
  /** Folders and files that are mutated. A file belongs to the area that names it, or its nearest folder. */
  readonly sources: readonly string[];
  /** Folders and files of tests that run. */
  readonly tests: readonly string[];
  /** Percent of the mutants that these tests have to notice. */
  readonly score: number;
};

/**
 * A layer of a host, with the tests of its name: most of a renderer is made once, when a test file is loaded, so that a
 * mutant of it needs all tests of its area. The golden files are among them, as the words of a rendered file have no other test.
 */
const hostLayer = (name: string, folders: readonly string[] = [name], tests: readonly string[] = [name]): Area => ({
  name: `host-${name}`,
  sources: folders.map((folder) => `infra/host/${folder}`),
  // shell.slow.test.ts has shellcheck find a value that a script lacks.
  tests: [
    ...[...tests, "layers"].map((test) => `test/infra/host/${test}.test.ts`),
    ...["test/infra/golden.test.ts", "test/infra/shell.slow.test.ts"],
  ],
  score: 85,
});

const hostLayers: readonly Area[] = [
  ...["builder", "egress", "firewall", "guard", "packages", "tools"].map((name) => hostLayer(name)),
  ...["programs", "routing", "secrets", "site"].map((name) => hostLayer(name)),
  hostLayer("keys", ["origin-key", "origin-certificate", "client-ca"], ["origin-key", "proxy-shell"]),
  hostLayer("proxy", ["proxy"], ["proxy", "proxy-shell", "website"]),
  hostLayer("receiver", ["receiver", "sandbox"]),
  // What every layer uses, and what is checked before the first apply.
  hostLayer(
    "kit",
    ["first-apply.ts", "index.ts", "kit.ts", "paths.ts", "preflight.ts", "summary.ts"],
    ["first-apply", "kit", "names.slow", "paths", "preflight", "summary"],
  ),
];

export const areas: readonly Area[] = [
  {
    name: "receiver",
    sources: ["receiver", "git-hosts", "journal.ts", "limits.ts", "settings.ts", "printable.ts", "tried.ts"].map(
      (name) => `service/${name}`,
    ),
    // reference.test.ts has the words for the limits, which are keys of the configuration.
    tests: [
      "test/service/receiver",
      "test/service/git-hosts",
      "test/service/reporter",
      "test/infra/config/reference.test.ts",
    ],
    score: 92,
  },
  {
    name: "git-hosts",
    // Their APIs: the receiver reads nothing of these.
    sources: ["service/git-hosts/api", "service/pause.ts"],
    tests: ["test/service/git-hosts/api", "test/service/pause.test.ts"],
    score: 90,
  },
  { name: "metrics", sources: ["service/metrics"], tests: ["test/service/metrics"], score: 85 },
  { name: "builder", sources: ["service/builder"], tests: ["test/service/builder"], score: 85 },
  {
    name: "reporter",
    sources: ["service/reporter", "service/exchange.ts", "service/confined.ts", "service/builder/outbox.ts"],
    tests: ["test/service/reporter", "test/service/exchange.test.ts"],
    score: 85,
  },
  {
    name: "fetcher",
    sources: ["service/fetcher"],
    tests: ["fetcher", "fetcher/npm.slow.test.ts"].map((at) => `test/service/${at}`),
    score: 85,
  },
  { name: "config", sources: ["infra/config"], tests: ["test/infra/config"], score: 85 },
  {
    name: "tools",
    sources: ["infra/config/tools.ts", "infra/cli/stack/repository"],
    tests: ["tools", "repository"].map((name) => `test/infra/cli/stack/${name}.test.ts`),
    score: 85,
  },
  { name: "apply", sources: ["infra/apply"], tests: ["test/infra/apply"], score: 85 },
  { name: "edge", sources: ["infra/edge"], tests: ["test/infra/edge"], score: 85 },
  ...hostLayers,
  { name: "trace", sources: ["infra/trace"], tests: ["test/infra/trace"], score: 85 },
];

/**
 * Run only in a bundle or under the engine. by-hand.ts has mutants of the first three, and none of declare.ts, which
 * test/infra/stack.test.ts evaluates without an engine and test/engine runs with one, nor of the last two.
 */
export const notMutated = [
  "service/receiver/main.ts",
  "service/builder/main.ts",
  "infra/edge/zone/lock.ts",
  "infra/host/declare.ts",
  "service/fetcher/main.ts",
  "service/reporter/main.ts",
];

/** The area of a file of TypeScript, undefined where none mutates it. */
export function areaOf(file: string): Area | undefined {
  if (!file.endsWith(".ts") || notMutated.includes(file)) return undefined;
  const named = areas.flatMap((area) => area.sources.map((source) => ({ area, source })));
  const around = named.filter(({ source }) => file === source || file.startsWith(`${source}/`));
  return around.sort((one, other) => other.source.length - one.source.length)[0]?.area;
}
