/** Sends random requests to a receiver, and compares each answer with the oracle of requests.ts. */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Settings } from "../../infra/config/settings.ts";
import { gitHostNames } from "../../service/git-hosts/index.ts";
import { example } from "../fixtures.ts";
import { answer } from "../service/receiver/harness.ts";
import { startReceiver } from "../service/receiver-process.ts";
import { generator, hookSecrets, type Made } from "./requests.ts";

/** It ends early after `seconds`. */
type Fuzz = { readonly count: number; readonly seconds: number; readonly seed: number };

/** Requests between two looks at the spool, the process's memory and its descriptors. */
const batch = 2_000;
/** Each has a source of its own: one address would soon use up its budget, and get 429 for any fault. */
const connections = 32;
/** MiB that the median memory of the last tenth may exceed that of the first by. */
const growth = 8;

/** The answers to a request that is not signed; 429 is a rejection above the budget. A 400 would come from its body. */
const rejections = [401, 404, 405, 413, 415, 429];
/** The answers to broken HTTP, too. */
const ofBroken = [400, 408, 431];

function faultOf({ valid, push, broken }: Made, status: number, served: boolean): string | undefined {
  if (status === 0) return broken ? undefined : "closed the connection without an answer";
  if (!served) return `answered ${status} without X-Served-By`;
  const rejected = rejections.includes(status) || (broken && ofBroken.includes(status));
  if (!valid) return rejected ? undefined : `answered ${status} to a request that is not signed`;
  if (status === 202) return push ? undefined : "accepted what is not a push to the branch";
  if (broken) return undefined;
  if (push) return `answered ${status} to a valid push`;
  return [200, 400, 429].includes(status) ? undefined : `answered ${status} to a signed delivery`;
}

/** A hook of each git host, and limits for a fuzzer. */
const fuzzed: Settings = {
  ...example,
  hooks: gitHostNames.map((gitHost) => ({ ...example.hooks[0]!, name: gitHost, gitHost })),
  limits: {
    ...example.limits,
    // A chunked body reserves bodyBytes: with 5 MiB it would wait for a place.
    bodyBytes: 100_000,
    rejectionsPerMinute: 10_000,
    concurrentPerSource: 2 * connections,
  },
};

/** Returns how often each status came; 0 is a connection that ended without an answer. */
export async function fuzzBundle(bundle: string, { count, seconds, seed }: Fuzz, say = (_: string): void => {}) {
  const receiver = await startReceiver(bundle, fuzzed, undefined, hookSecrets);
  const make = generator(seed);
  const until = performance.now() + seconds * 1000;
  const faults: string[] = [];
  const statuses: Record<number, number> = {};
  const memory: number[] = [];
  const descriptors = () => readdirSync(`/proc/${receiver.pid}/fd`).length;
  let sent = 0;

  /** Sends one request after another, on a new connection where the last was closed, until `take` has no more. */
  const lane = async (localAddress: string, take: () => Made | undefined) => {
    let socket: Socket | undefined;
    for (let made = take(); made; made = take()) {
      if (!socket?.writable)
        socket = connect({ host: "127.0.0.1", port: receiver.port, localAddress }).on("error", () => {});
      const answering = answer(socket);
      // An altered byte can make a request incomplete: the receiver waits for the rest.
      const timer = setTimeout(() => socket?.destroy(), 15_000);
      socket.write(made.bytes);
      const { status, headers } = await answering;
      clearTimeout(timer);
      statuses[status] = (statuses[status] ?? 0) + 1;
      const fault = faultOf(made, status, headers["x-served-by"] === "pushgate-receiver");
      if (fault !== undefined) faults.push(`the receiver ${fault}: ${JSON.stringify(made.bytes.toString("latin1"))}`);
      // The rest of a broken request can be one of its own, whose answer would come for the next one.
      if (headers.connection === "close" || made.broken) socket.destroy();
    }
    socket?.destroy();
  };

  try {
    const idle = descriptors();
    while (sent < count && faults.length === 0 && performance.now() < until) {
      const before = statuses[202] ?? 0;
      let left = Math.min(batch, count - sent);
      sent += left;
      const take = () => (left-- > 0 ? make() : undefined);
      await Promise.all(Array.from({ length: connections }, (_, i) => lane(`127.0.1.${i + 1}`, take)));
      faults.push(...spoolFaults(receiver.spool, (statuses[202] ?? 0) - before));
      for (let tries = 0; descriptors() > idle && tries < 200; tries++) await sleep(10);
      if (descriptors() > idle) faults.push(`${descriptors()} descriptors are open without a connection, not ${idle}`);
      memory.push(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${receiver.pid}/status`, "utf8"))?.[1]) / 1024);
      if (memory.length % 25 === 0) say(`${sent} sent, ${memory.at(-1)!.toFixed(0)} MiB`);
    }
    const tenth = Math.floor(memory.length / 10);
    // Fewer requests say nothing: V8 has not yet collected.
    if (sent >= 500_000) {
      const median = (all: number[]) => all.sort((a, b) => a - b)[all.length >> 1]!;
      const [first, last] = [median(memory.slice(0, tenth)), median(memory.slice(-tenth))];
      if (last > first + growth) faults.push(`the memory grew from ${first.toFixed(0)} to ${last.toFixed(0)} MiB`);
    }
  } catch (error) {
    faults.push(`the receiver ended or does not answer: ${error}`);
  } finally {
    await receiver.stop();
  }
  return { sent, faults, statuses };
}

/** Whole files only, no more than were accepted. Removes them, as the builder does. */
function spoolFaults(spoolOf: (hook: string) => string, accepted: number): string[] {
  const files = gitHostNames.map(spoolOf).flatMap((folder) => readdirSync(folder).map((file) => `${folder}/${file}`));
  const faults = files.length > accepted ? [`${files.length} files are in the spool, ${accepted} were accepted`] : [];
  for (const file of files) {
    const text = readFileSync(file, "utf8");
    if (!file.endsWith(".json") || JSON.parse(text).ref !== "refs/heads/main") faults.push(`the spool holds ${file}`);
    rmSync(file);
  }
  return faults;
}
