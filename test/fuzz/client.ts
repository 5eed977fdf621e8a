/** The client of host.ts, in a process of its own in the host's network. Reads a Run as JSON, prints a Fuzzed as JSON. */
import { type Fuzz, fuzz, type Target } from "./run.ts";

export type Run = Omit<Target, "source"> & { readonly sources: readonly string[] } & Omit<Fuzz, "target" | "say">;

const asked: Run = JSON.parse(await new Response(process.stdin as unknown as ReadableStream).text());
const { sources, count, seconds, seed, ...target } = asked;
const source = (lane: number) => sources[lane]!;
console.log(JSON.stringify(await fuzz({ target: { ...target, source }, count, seconds, seed, say: console.log })));
