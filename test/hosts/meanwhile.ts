/** One thing again and again while another goes on: how the tests see what a change does to who comes meanwhile. */
import { setTimeout as sleep } from "node:timers/promises";

/** `seen`: what each look gave, `pause` milliseconds apart, the last begun before `work` was over. Throws what either throws. */
export async function meanwhile<T, S>(
  work: () => Promise<T>,
  look: () => Promise<S>,
  pause = 0,
): Promise<{ readonly done: T; readonly seen: readonly S[] }> {
  const seen: S[] = [];
  let going = true;
  const looking = async () => {
    while (going) {
      seen.push(await look());
      await sleep(pause);
    }
  };
  const working = async () => {
    try {
      return await work();
    } finally {
      going = false;
    }
  };
  const [worked, looked] = await Promise.allSettled([working(), looking()]);
  if (looked.status === "rejected") throw looked.reason;
  if (worked.status === "rejected") throw worked.reason;
  return { done: worked.value, seen };
}
