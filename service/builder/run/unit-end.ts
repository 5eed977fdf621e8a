/** systemd runs this after a builder that was ended in a run: the status has the reason, and the next one pauses. */
import { printable } from "../../printable.ts";
import { tried } from "../../tried.ts";
import { readText, remove, writeWhole } from "../files.ts";
import type { Places } from "../places.ts";
import type { BuilderSettings, UnitEnd } from "../settings.ts";
import { arrived, named, pending } from "./markers.ts";
import { pausesOf, stillFailing } from "./pauses.ts";
import { reportResult, turnOf } from "./reports.ts";
import { endRun } from "./runs.ts";
import { lineOf, Run, type RunLine, readStatus, writeStatus } from "./status.ts";

export function reportEnd(settings: BuilderSettings, places: Places, end: UnitEnd): RunLine | undefined {
  const { hook } = settings;
  const markers = pending(places);
  if (markers.length === 0 && !arrived(places)) return undefined;
  const run = new Run(named(markers)).end({ result: "failed", reason: reasonOf(hook, end) });
  const before = readStatus(places)?.failing;
  const failing = stillFailing(before, pausesOf(settings));
  reportResult({ settings, places }, run, turnOf(before, failing));
  writeWhole(places.paused, `${failing.next}\n`, 0o600);
  writeStatus(places, hook, run, failing);
  const line = lineOf(places, hook, run, failing);
  tried(() => endRun(places, line, markers, run));
  return line;
}

function reasonOf(hook: string, { result, code, status }: UnitEnd): string {
  const how = printable([result, code, status].filter(Boolean).join(", "), 100);
  if (result !== "oom-kill" && status !== "KILL")
    return `the builder ended in the middle of a run (${how}). See journalctl -u pushgate-build@${hook}.`;
  return `the builder was killed at its memory limit, or as the host had no memory left (${how}). Raise hooks[].site.limits.memoryMiB, which below 512 limits the generator alone, or see journalctl -k.`;
}

/** Until when the builder pauses, in milliseconds since 1970. Only once: a builder that a person starts runs at once. */
export function takePause({ paused }: Places): number | undefined {
  const text = readText(paused);
  if (text === undefined) return undefined;
  remove(paused);
  return Date.parse(text.trim()) || undefined;
}
