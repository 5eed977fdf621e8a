/**
 * Random walks over one host: manual changes, changes of the program, applies that fail or are killed. After each step
 * `preview` and `up` run, and these hold:
 * - no drift is missed: a host that is not as declared never gives an input that the engine would skip;
 * - no apply runs in sync: as declared, with its own stamp and an unchanged program, the input equals the last one;
 * - the host converges: after one successful apply it is as declared, and the next preview is empty;
 * - a rejected candidate changes nothing, a failed activation leaves the former files.
 * apply-interrupted.slow.test.ts looks at the files after a kill.
 */
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { sealed } from "../../../infra/apply/version.ts";
import { asDeclared, daemonLayer, type Files, ShellHost, stampOf } from "./shell-host.ts";

const manualChanges = ["edit", "delete", "chmod", "link", "stray", "unload", "delete stamp", "tamper stamp"] as const;
const declared = ["declare", "undeclare", "leave", "nothing", "fail", "kill"] as const;
const text = fc.constantFrom("a\n", "b\nit's\n", "no line end", '$(touch x) `y` \\ "q"\n', "c\n".repeat(300));

/** Each step reads some of the values. */
const step = fc.record({
  do: fc.constantFrom(...manualChanges, ...declared),
  name: fc.constantFrom("pg-one", "pg-two", "pg.d/three", "pg.d/sub/four"),
  text,
  typed: fc.oneof(text, fc.string({ maxLength: 12 })),
  mode: fc.constantFrom("0644" as const, "0600" as const, "0755" as const),
  stray: fc.constantFrom("file", "folder", "link", "blank name"),
  // The last two are valid.
  stamp: fc.constantFrom(
    ...["", "0.1.0-0123456789ab", "absent", "absent-0.1.0-0123456789ab", "removing"],
    ...[sealed("daemon", "0.1.0-01234567"), `${sealed("daemon", "0.1.0-01234567")}\nfile x`],
  ),
  how: fc.constantFrom("REJECTED", "FATAL"),
  nth: fc.integer({ min: 1, max: 40 }), // the call of a tool at which the apply is killed
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function ensure(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

function change(host: ShellHost, { do: kind, name, typed, mode, stray, stamp }: Step): void {
  const at = join(host.etc, name);
  const stampFile = join(host.state, "stamps/daemon");
  // Only in an existing folder: an apply does not remove a folder that a manual change made.
  if (kind === "edit" && existsSync(dirname(at))) writeFileSync(at, typed);
  if (kind === "delete") rmSync(at, { force: true });
  if (kind === "chmod" && existsSync(at)) chmodSync(at, Number.parseInt(mode, 8));
  if (kind === "link" && existsSync(at)) {
    rmSync(at);
    symlinkSync("/etc/hostname", at);
  }
  if (kind === "stray") {
    const path = join(host.etc, stray === "blank name" ? "pg-it's * a name" : "pg-stray");
    rmSync(path, { recursive: true, force: true });
    if (stray === "folder") mkdirSync(join(path, "inner"), { recursive: true });
    if (stray === "link") symlinkSync("/etc", path);
    else writeFileSync(stray === "folder" ? join(path, "inner/file") : path, "stray");
  }
  if (kind === "unload") rmSync(join(host.live, name.replaceAll("/", "%")), { force: true });
  if (kind === "delete stamp") rmSync(stampFile, { force: true });
  if (kind === "tamper stamp") {
    mkdirSync(dirname(stampFile), { recursive: true });
    writeFileSync(stampFile, stamp);
  }
}

/** Counts over all walks, so that a walk without effect fails its test. */
type Walked = { steps: number; killed: number; rejected: number; rolledBack: number };

function walk(steps: readonly Step[], counts: Walked): void {
  using host = new ShellHost();
  const base = host.tree();
  let files: Files = { "pg-one": { text: "first\n", mode: "0644" } };
  let present = true;
  /** The input of the last apply that succeeded, as the engine's state has it, and the stamp in it. */
  let [input, stamp] = ["", ""];

  const up = (declared: Files, here: boolean, nth = 0): void => {
    const layer = daemonLayer(host, declared, here);
    const verdict = reconcile(layer, host.see(layer));
    const next = host.script(layer, verdict.stamp);
    const clean = asDeclared(host, declared, here, base);
    ensure(clean || next !== input, "missed: the host is not as declared and preview is empty");
    const isSameProgram = next.replaceAll(verdict.stamp, "") === input.replaceAll(stamp, "");
    if (clean && isSameProgram && stampOf(host) === (stamp === "absent" ? undefined : stamp))
      ensure(next === input, "ran in sync: nothing changed and preview is not empty");
    if (next === input) return;

    const [before, liveBefore] = [host.tree(), host.tree(host.live)];
    const { status, stderr } = nth === 0 ? host.run(next) : host.killedApply(next, nth);
    const after = host.tree();
    if (status === 0) {
      const isRejected = here && Object.values(declared).some(({ text }) => /REJECTED|FATAL/.test(text));
      ensure(!isRejected, "accepted a rejected file");
      ensure(asDeclared(host, declared, here, base), `applied and not as declared:\n${after.join("\n")}\n${stderr}`);
      [input, stamp] = [next, verdict.stamp];
      const again = reconcile(layer, host.see(layer));
      ensure(again.stamp === stamp, `not converged: ${again.drift.map(({ text }) => text).join("\n")}`);
    } else if (stderr.includes("failed at: check of")) {
      counts.rejected++;
      const isFormer =
        before.join("\n") === after.join("\n") && liveBefore.join("\n") === host.tree(host.live).join("\n");
      ensure(isFormer, `rejected, and yet something changed:\n${stderr}`);
    } else if (stderr.includes("failed at: activate")) {
      counts.rolledBack++;
      ensure(before.join("\n") === after.join("\n"), `failed, and the files are not the former:\n${stderr}`);
    } else {
      ensure(nth > 0 && !stderr.includes("failed at"), `an apply failed that should not:\n${stderr}`);
      counts.killed++;
    }
  };

  up(files, present);
  for (const step of steps) {
    counts.steps++;
    change(host, step);
    const { do: kind, name, text, mode, how, nth } = step;
    if (kind === "declare" || kind === "kill") files = { ...files, [name]: { text, mode } };
    if (kind === "undeclare") files = Object.fromEntries(Object.entries(files).filter(([other]) => other !== name));
    if (kind === "declare") present = true;
    if (kind === "leave") present = false;
    if (kind === "fail") up({ ...files, [name]: { text: `${how}\n`, mode: "0644" } }, true);
    if (kind === "kill") up(files, present, nth);
    up(files, present);
    ensure(!host.tree().some((line) => line.includes(".pushgate-new")), "a temporary file stayed");
  }
}

/** Walks until about `steps` steps are done; throws fast-check's report with seed and shrunk walk. */
export function soakWalks({ steps, seed }: { steps: number; seed: number }): Walked {
  const counts = { steps: 0, killed: 0, rejected: 0, rolledBack: 0 };
  const walks = fc.array(step, { minLength: 1, maxLength: 30, size: "max" });
  void fc.assert(
    fc.property(walks, (walked) => walk(walked, counts)),
    { seed, numRuns: Math.ceil(steps / 15) },
  );
  return counts;
}
