/** One run, as it is told: what came of it, why, and how long each step took. */
import { type Marker, named } from "./markers.ts";
import type { Adoption, Last, Step } from "./status.ts";

export class Report {
  result: Last["result"] = "nothing";
  reason = "";
  commit: string | null = null;
  head: string | null = null;
  adoption: Adoption | undefined;
  /** Of a publish: the releases that stay. */
  stay: readonly string[] | undefined;
  readonly trigger: readonly string[];
  readonly warnings: string[] = [];
  readonly #started = performance.now();
  readonly #spent: Partial<Record<Step, number>> = {};

  constructor(markers: readonly Marker[], debounce: number) {
    this.trigger = named(markers);
    this.#spent.debounce = debounce;
  }

  async timed<T>(step: Step, work: () => T | Promise<T>): Promise<T> {
    const from = performance.now();
    try {
      return await work();
    } finally {
      this.#spent[step] = (this.#spent[step] ?? 0) + performance.now() - from;
    }
  }

  last(): Last {
    const { debounce = 0, fetch = 0, decide = 0, checkout = 0, hugo = 0, publish = 0 } = this.#spent;
    const total = debounce + performance.now() - this.#started;
    const spent = { debounce, fetch, decide, checkout, hugo, publish, total };
    const milliseconds = Object.fromEntries(Object.entries(spent).map(([step, ms]) => [step, Math.round(ms)]));
    const { result, reason, commit, trigger, warnings } = this;
    return {
      result,
      reason,
      commit,
      at: new Date().toISOString(),
      trigger,
      warnings,
      milliseconds: milliseconds as Last["milliseconds"],
    };
  }
}
