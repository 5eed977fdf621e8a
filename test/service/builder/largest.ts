/** What pushes leave at most: each file that a run writes in its largest form, and folders that a build or a killed git fills. */
import { mkdirSync, readFileSync, readlinkSync, truncateSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { most } from "../../../service/builder/files.ts";
import type { Places } from "../../../service/builder/places.ts";

const commit = "c".repeat(64);
const long = "x".repeat(1_000);
const markers = Array.from({ length: 1_000 }, (_, i) => `delivery ${i} ${long.slice(0, 110)}\n${i} ${long}\n`).join("");

const texts = {
  ...{ taken: markers, parked: markers, held: commit, madeAnew: commit, paused: "2026-01-01T00:00:00.000Z" },
  purged: "000001-cccccccccccc",
  roomFor: `${1 << 30}`,
  unbuilt: JSON.stringify(
    Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}${long.slice(0, 40)}`, { commit, attempts: 9 }])),
  ),
  reported: JSON.stringify({ commit, state: "failure", reason: long.slice(0, 500) }),
  pages: "a.md,,t,2020,0001-01-01T00:00:00Z,2020-01-01T00:00:00Z,false,/a/\n".repeat(200_000),
  mounts: '{\n"dir": "/source",\n"mounts": [{ "source": "content" }]\n}\n'.repeat(20_000),
  stats: "{}",
} satisfies { [name in keyof Places]?: string };
/** Of these a site has its own; a place with neither fails. */
const own =
  /^(spool|requests|rootRequests|site|current|releases?|status|work|clone|history|out|cache|manifests?|checkedOut|wanted|fetched|dependencies|lfs|runs)$/;

export function leaveLargest(places: Places): void {
  for (const name of Object.keys(places) as (keyof Places)[])
    if (name in texts) writeFileSync(`${places[name]}`, texts[name as keyof typeof texts]);
    else if (!own.test(name)) throw new Error(`${name} has no largest form`);
  truncateSync(places.stats, 1 << 30);
  const status = JSON.parse(readFileSync(places.status, "utf8"));
  status.last = { ...status.last, reason: long, warnings: Array.from({ length: 50 }, () => long) };
  writeFileSync(places.status, JSON.stringify(status));
  leaveManifests(places, most.entries, most.pathBytes / most.entries - 5);
  for (const folder of [places.out, `${places.clone}/.git/left`]) {
    mkdirSync(folder, { recursive: true });
    for (let i = 0; i <= most.entries; i++) writeFileSync(`${folder}/${`${i}`.padEnd(250, "x")}`, "");
  }
}

/** Of five releases, with as many files, whose paths have this length. */
export function leaveManifests(places: Places, files: number, length: number): void {
  const published = basename(readlinkSync(places.current));
  const manifest = JSON.parse(readFileSync(places.manifest(published), "utf8"));
  const nameOf = (file: number) => `新${file}`.padEnd(length, "x");
  while (manifest.files.length < files) manifest.files.push([nameOf(manifest.files.length), 1e12, commit, published]);
  for (const release of [published, ...[1, 2, 3, 4].map((i) => `90000${i}-cccccccccccc`)]) {
    mkdirSync(places.release(release), { recursive: true });
    writeFileSync(places.manifest(release), JSON.stringify({ ...manifest, release }));
  }
}
