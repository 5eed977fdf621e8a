/** status.json, for people and for the status command: what is published, and the result of the last run. */
import { type Builds, type Result, results } from "../../metrics/builds.ts";
import { uptime } from "../clock.ts";
import { readJson, writeWhole } from "../files.ts";
import { heldHead, type Places } from "../places.ts";
import { currentRelease, deployed, type Manifest, readManifest, releases } from "../release/releases.ts";
import type { Failing } from "./pauses.ts";

/** `folder`: of the release, and of its address. */
export type Preview = Readonly<Record<"branch" | "commit" | "folder" | "url", string>>;

type Step = "fetch" | "decide" | "checkout" | "dependencies" | "build" | "publish";

export type Last = {
  result: Result;
  reason: string;
  commit: string | null;
  at: string;
  readonly trigger: readonly string[];
  readonly warnings: string[];
  readonly milliseconds: Record<Step | "total", number>;
};

/** The head may be unpublished all the same, as after a rollback. */
export const isGood = ({ result }: Pick<Last, "result">): boolean => result === "published" || result === "nothing";

export type Status = {
  readonly hook: string;
  readonly deployed: Pick<Manifest, "release" | "commit" | "at" | "warnings"> | null;
  readonly head: string | null;
  readonly held?: string;
  readonly last: Last;
  readonly failing?: Failing;
  readonly releases: readonly ({ readonly id: string } & Pick<Manifest, "commit" | "at" | "pages" | "bytes">)[];
} & Pick<Builds, "runs" | "succeeded">;

/** A line of the journal: `journalctl -o cat -u pushgate-build@<hook>`. */
export type RunLine = ReturnType<typeof lineOf>;

export const lineOf = (places: Places, hook: string, { last }: Run, failing: Failing | undefined) => ({
  ...{ hook, ...last, release: currentRelease(places) ?? null },
  ...(failing && { failing }),
});

export class Run {
  readonly last: Last;
  head: string | null = null;
  /** Of its commit, and `commits`: those that the site gets with it. */
  about:
    | Readonly<{ subject?: string | undefined; author?: string | undefined; commits?: readonly string[] }>
    | undefined;
  /** What its build printed. */
  output = "";
  begins: (step: Step) => void = () => {};
  /** Gets what its build prints, while it runs. */
  shows: (output: string) => void = () => {};
  /** Of previews: which one it builds; `more`: others wait, so the markers stay. */
  preview: Preview | undefined;
  more = false;
  /** That its build failed is noted, so it is not tried again at once. */
  isNoted: boolean | undefined;
  /** Of a publish: the releases that stay. */
  stay: readonly string[] | undefined;
  readonly #started = uptime();

  constructor(trigger: readonly string[]) {
    const milliseconds = { fetch: 0, decide: 0, checkout: 0, dependencies: 0, build: 0, publish: 0, total: 0 };
    this.last = { result: "nothing", reason: "", commit: null, at: "", trigger, warnings: [], milliseconds };
  }

  async timed<T>(step: Step, work: () => T | Promise<T>): Promise<T> {
    const from = uptime();
    this.begins(step);
    try {
      return await work();
    } finally {
      this.last.milliseconds[step] += uptime() - from;
    }
  }

  end(last: Partial<Last> = {}): this {
    const { milliseconds } = Object.assign(this.last, last, { at: new Date().toISOString() });
    milliseconds.total = uptime() - this.#started;
    for (const step of Object.keys(milliseconds) as Step[]) milliseconds[step] = Math.round(milliseconds[step]);
    return this;
  }
}

export function writeStatus(places: Places, hook: string, run: Run, failing: Failing | undefined): void {
  const { last, stay } = run;
  const published = deployed(places);
  const { warnings = [] } = published ?? {};
  const held = heldHead(places);
  // Releases that do not stay are being removed.
  const known = releases(places)
    .filter((id) => stay?.includes(id) ?? true)
    .flatMap((id) => readManifest(places, id) ?? []);
  const former = readStatus(places);
  const status: Status = {
    hook,
    deployed: published ? { release: published.release, commit: published.commit, at: published.at, warnings } : null,
    head: run.head ?? former?.head ?? null,
    ...(held !== null && { held }),
    last,
    ...(failing && { failing }),
    runs: Object.fromEntries(results.map((name) => [name, (former?.runs[name] ?? 0) + Number(name === last.result)])),
    succeeded: isGood(last) ? last.at : (former?.succeeded ?? null),
    releases: known.map(({ release: id, commit, at, pages, bytes }) => ({ id, commit, at, pages, bytes })),
  };
  writeWhole(places.status, `${JSON.stringify(status, null, 2)}\n`);
}

export const readStatus = ({ status }: Places): Status | undefined => readJson(status);
