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

/** Requests between two looks at the spool and the process's descriptors. */
const batch = 2_000;
/** Each has a source of its own: one address would soon use up its budget, and get 429 for any fault. */
const connections = 32;

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
export async function fuzzBundle(bundle: string, count: number, seed: number) {
  const receiver = await startReceiver(bundle, fuzzed, undefined, hookSecrets);
  const make = generator(seed);
  const faults: string[] = [];
  const statuses: Record<number, number> = {};
  const descriptors = () => readdirSync(`/proc/${receiver.pid}/fd`).length;
  let sent = 0;

  /** Sends one request after another, on a new connection where the last was closed, until `take` has no more. */
  const lane = async (localAddress: string, take: () => Made | undefined) => {
    let socket: Socket | undefined;
    for (let made = take(); made; made = take()) {
      if (!socket?.writable)
        socket = connect({ host: "127.0.0.1", port: receiver.port, localAddress }).on("error", () => {});
      const answering = answer(socket);
      socket.write(made.bytes);
      const { status, headers } = await answering;
      statuses[status] = (statuses[status] ?? 0) + 1;
      const { "x-served-by": served = "nothing" } = headers;
      if (!made.right.includes(status) || served !== "pushgate-receiver")
        faults.push(
          `${served} answered ${status}, not ${made.right}, to ${JSON.stringify(made.bytes.toString("latin1"))}`,
        );
      if (headers.connection === "close") socket.destroy();
    }
    socket?.destroy();
  };

  try {
    const idle = descriptors();
    while (sent < count && faults.length === 0) {
      const before = statuses[202] ?? 0;
      let left = Math.min(batch, count - sent);
      sent += left;
      const take = () => (left-- > 0 ? make() : undefined);
      await Promise.all(Array.from({ length: connections }, (_, i) => lane(`127.0.1.${i + 1}`, take)));
      faults.push(...spoolFaults(receiver.spool, (statuses[202] ?? 0) - before));
      for (let tries = 0; descriptors() > idle && tries < 200; tries++) await sleep(10);
      if (descriptors() > idle) faults.push(`${descriptors()} descriptors are open without a connection, not ${idle}`);
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
