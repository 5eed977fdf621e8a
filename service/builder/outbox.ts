/** A folder of numbered files, oldest first: the builder only adds reports, on the disk, and the reporter removes them. */
import { join } from "node:path";
import * as v from "valibot";
import { printable } from "../printable.ts";
import { tried } from "../tried.ts";
import { beginningOf, eachName, isNumberedName, moveAside, numberedName, remove, writeWhole } from "./files.ts";

const reportShape = v.object({
  /** The git host, a recipient of `site.notify`, or Cloudflare's cache. */
  to: v.pipe(v.string(), v.regex(/^(status|purge|notify\.[a-z0-9-]{1,32})$/)),
  /** null where a build failed before its commit was known. */
  commit: v.nullable(v.pipe(v.string(), v.regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/))),
  /** Of a recipient of `site.notify`, success and failure are turns. */
  state: v.picklist(["pending", "success", "failure", "published", "test"]),
  reason: v.pipe(
    v.string(),
    v.check((text) => printable(text) === text),
    v.maxLength(501),
  ),
  at: v.pipe(v.string(), v.isoTimestamp()),
  /** Of a preview, for the git host. */
  url: v.exactOptional(v.pipe(v.string(), v.regex(/^https:\/\/[!-~]+$/))),
  /** To purge: paths of the site as visitors request them. Without them all of its hostname is purged. */
  paths: v.exactOptional(v.pipe(v.array(v.string()), v.readonly())),
});
export type Report = Readonly<v.InferOutput<typeof reportShape>>;

/** Reports that may wait. A site that is pushed to every few minutes leaves fewer in a day without its git host. */
const mostWaiting = 500;
const mostBytes = 8 << 10;

/** Without names that have a leading dot, which a path unit does not see either. */
const seenIn = (folder: string): Buffer[] =>
  [...eachName(folder)].filter(([first]) => first !== 0x2e).sort(Buffer.compare);

export function add(folder: string, report: Report): void {
  const names = seenIn(folder).map(String).filter(isNumberedName);
  const number = Number.parseInt(names.at(-1) ?? "0", 10) + 1;
  const name = numberedName(number);
  writeWhole(join(folder, name), `${JSON.stringify(report)}\n`, 0o644, join(folder, ".new"));
  for (const old of names.slice(0, Math.max(0, names.length + 1 - mostWaiting))) remove(join(folder, old));
}

/** All that wait, with their names in bytes. A file without a report is not the builder's. */
export const waiting = (folder: string) =>
  seenIn(folder).map((name) => ({
    name,
    report: isNumberedName(`${name}`) ? read(join(folder, `${name}`)) : undefined,
  }));

const read = (path: string): Report | undefined =>
  tried(() => v.parse(reportShape, JSON.parse(beginningOf(path, mostBytes))));

export function removeReport(folder: string, name: Buffer): void {
  const path = Buffer.concat([Buffer.from(`${folder}/`), name]);
  try {
    remove(path);
  } catch {
    moveAside(folder, path); // a folder that is too deep
  }
}
