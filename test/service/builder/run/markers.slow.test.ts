/** Many markers, and a member who exchanges them. */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { arrived, pending, removeDone, take } from "../../../../service/builder/run/markers.ts";
import { onPlaces, places } from "../scene.ts";

onPlaces();

test("25,000 requests of a member are three runs that take 10,000 each and name a thousand, and hide no delivery", () => {
  for (let i = 0; i < 25_000; i++) writeFileSync(join(places.requests, `${i}`), "");
  const began = performance.now();
  const { markers, left } = take(places);
  expect([markers.length, left.size, readdirSync(places.requests).length]).toEqual([1_000, 0, 15_000]);
  expect(arrived(places, left)).toBe(true);
  take(places);
  for (let i = 0; i < 1_002; i++) writeFileSync(join(places.spool, `${i}.json`), "");
  take(places);
  expect(readdirSync(places.requests)).toEqual([]);
  const noted = pending(places).map(({ kind }) => kind);
  for (const kind of ["delivery", "request"]) expect(noted.filter((each) => each === kind)).toHaveLength(1_000);
  expect(performance.now() - began).toBeLessThan(20_000);
});

/** Exchanges a folder with files for a link by RENAME_EXCHANGE, as often as it can, for two seconds. */
const exchanger = `use POSIX ();
my $number = {x86_64 => 316, aarch64 => 276}->{(POSIX::uname())[4]} or die "no number of renameat2";
my ($folder, $outside) = @ARGV;
my ($x, $y, $end) = ("$folder/x", "$folder/y", time + 2);
while (time < $end) {
  mkdir $x; mkdir "$x/in"; symlink $outside, $y;
  syscall($number, -100, $x, -100, $y, 2) for 1..20;
}`;

test("a member who exchanges folders for links while the builder takes them stops no delivery and leads it nowhere", async () => {
  const outside = join(places.site, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "of another program");
  const member = spawn("perl", ["-e", exchanger, places.requests, outside], { stdio: "inherit" });
  for (let round = 1; member.exitCode === null; round += 1) {
    writeFileSync(join(places.spool, `${round}.json`), "");
    const { markers } = take(places);
    expect(markers).toContainEqual({ kind: "delivery", name: `delivery ${round}` });
    removeDone(places, markers);
    await turn();
  }
  expect(member.exitCode).toBe(0);
  expect(readFileSync(join(outside, "file"), "utf8")).toBe("of another program");
});
