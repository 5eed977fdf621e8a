/** Repeats a request while a change is made, so that a test sees what the change does to clients. */
import { setTimeout as sleep } from "node:timers/promises";

/** `seen` holds the results of `look`, called every `pause` milliseconds until `work` has ended. Rethrows errors. */
export async function repeatWhile<T, S>(
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
