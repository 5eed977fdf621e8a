/**
 * Random walks over one host: manual changes, changes of the program, applies that fail or are killed. After each step
 * `preview` and `up` run, and these hold:
 * - no drift is missed: a host that is not as declared never gives an input that the engine would skip;
 * - no apply runs in sync: as declared, with its own stamp and an unchanged program, the input equals the last one;
 * - the host converges: after one successful apply it is as declared, and the next preview is empty;
 * - a rejected candidate changes nothing, a failed activation leaves the former files;
 * - a killed apply leaves each file whole, the old or the new one, and no half-written file anywhere live.
 */
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { sealed } from "../../../infra/apply/version.ts";
import { asDeclared, daemonLayer, type Files, ShellHost } from "./shell-host.ts";

const names = ["pg-one", "pg-two", "pg.d/three", "pg.d/sub/four"] as const;
const texts = ["a\n", "b\nit's\n", "no line end", '$(touch x) `y` \\ "q"\n', "c\n".repeat(300)] as const;

const name = fc.constantFrom(...names);
const text = fc.constantFrom(...texts);
const mode = fc.constantFrom("0644" as const, "0600" as const, "0755" as const);

const action = fc.oneof(
  fc.record({ do: fc.constant("edit" as const), name, text: fc.oneof(text, fc.string({ maxLength: 12 })) }),
  fc.record({ do: fc.constant("delete" as const), name }),
  fc.record({ do: fc.constant("chmod" as const), name, mode }),
  fc.record({ do: fc.constant("link" as const), name }),
  fc.record({ do: fc.constant("stray" as const), kind: fc.constantFrom("file", "folder", "link", "blank name") }),
  fc.record({ do: fc.constant("unload" as const), name }),
  fc.record({ do: fc.constant("delete stamp" as const) }),
  fc.record({
    do: fc.constant("tamper stamp" as const),
    // The last two are valid.
    stamp: fc.constantFrom(
      ...["", "0.1.0-0123456789ab", "absent", "absent-0.1.0-0123456789ab", "removing"],
      ...[sealed("daemon", "0.1.0-01234567"), `${sealed("daemon", "0.1.0-01234567")}\nfile x`],
    ),
  }),
  fc.record({ do: fc.constant("declare" as const), name, text, mode }),
  fc.record({ do: fc.constant("undeclare" as const), name }),
  fc.record({ do: fc.constant("leave" as const) }),
  fc.record({ do: fc.constant("nothing" as const) }),
  fc.record({ do: fc.constant("fail" as const), name, how: fc.constantFrom("REJECTED", "FATAL") }),
  fc.record({ do: fc.constant("kill" as const), name, text, mode, nth: fc.integer({ min: 1, max: 40 }) }),
);
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;
export const actions = (longest: number) => fc.array(action, { minLength: 1, maxLength: longest, size: "max" });

/** Counts over all walks, so that a walk without effect fails its test. */
type Walked = { steps: number; applies: number; killed: number; rejected: number; rolledBack: number };
export const nothingWalked = (): Walked => ({ steps: 0, applies: 0, killed: 0, rejected: 0, rolledBack: 0 });

function ensure(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

export function walk(steps: readonly Action[], counts: Walked): void {
  using host = new ShellHost();
  const base = host.tree();
  let files: Record<string, Files[string]> = { "pg-one": { text: "first\n", mode: "0644" } };
  let present = true;
  /** The input of the last apply that succeeded, as the engine's state has it, and the layer it carried. */
  let input: string | undefined;
  let stamp: string | undefined;
  const stampFile = join(host.state, "stamps/daemon");

  const up = (declared: Files, here: boolean, nth = 0): void => {
    const layer = daemonLayer(host, declared, here);
    const verdict = reconcile(layer, host.see(layer));
    const next = host.script(layer, verdict.stamp);
    const clean = asDeclared(host, declared, here, base);
    const changedProgram =
      input === undefined || next.replaceAll(verdict.stamp, "") !== input.replaceAll(stamp ?? "", "");
    ensure(clean || next !== input, "missed: the host is not as declared and preview is empty");
    const stampNow =
      existsSync(stampFile) && lstatSync(stampFile).isFile()
        ? readFileSync(stampFile, "utf8").split("\n")[0]
        : undefined;
    if (clean && !changedProgram && stampNow === (stamp === "absent" ? undefined : stamp))
      ensure(next === input, "ran in sync: nothing changed and preview is not empty");
    if (next === input) return;

    const before = [...host.tree(), ...host.tree(host.live)];
    counts.applies++;
    const ran = nth === 0 ? host.run(next) : host.killedApply(next, nth);
    const live = [...host.tree(), ...host.tree(host.live)];
    if (ran.status === 0) {
      ensure(
        !Object.values(here ? declared : {}).some(({ text }) => /REJECTED|FATAL/.test(text)),
        "accepted a rejected file",
      );
      ensure(asDeclared(host, declared, here, base), `applied and not as declared:\n${live.join("\n")}\n${ran.stderr}`);
      input = next;
      stamp = verdict.stamp;
      const again = reconcile(layer, host.see(layer));
      ensure(
        host.script(layer, again.stamp) === input,
        `not converged: ${again.stamp} ${again.drift.map(({ text }) => text).join("\n")}`,
      );
      return;
    }
    if (ran.stderr.includes("failed at: check of")) {
      counts.rejected++;
      ensure(before.join("\n") === live.join("\n"), `rejected, and yet something changed:\n${ran.stderr}`);
    } else if (ran.stderr.includes("failed at: activate")) {
      counts.rolledBack++;
      const etc = host.tree();
      const isFormer = etc.join("\n") === before.slice(0, etc.length).join("\n");
      ensure(isFormer, `failed, and the files are not the former:\n${ran.stderr}`);
    } else {
      ensure(nth > 0 && ran.stderr.includes("failed at") === false, `an apply failed that should not:\n${ran.stderr}`);
      counts.killed++;
      const wanted = Object.entries(declared).map(([name, { text, mode }]) => `${name} ${mode.slice(1)} ${text}`);
      const files = host.tree().filter((line) => line.startsWith("pg") && !/\/ |\.pushgate-new/.test(line));
      const torn = files.filter((line) => !before.includes(line) && !wanted.includes(line));
      ensure(torn.length === 0, `a half-written file is live: ${torn}`);
    }
  };

  up(files, present);
  for (const step of steps) {
    counts.steps++;
    const at = "name" in step ? join(host.etc, step.name) : "";
    const there = at !== "" && existsSync(at);
    switch (step.do) {
      case "edit":
        // Only in an existing folder: an apply does not remove a folder that a manual change made.
        if (existsSync(dirname(at))) writeFileSync(at, step.text);
        break;
      case "delete":
        rmSync(at, { force: true });
        break;
      case "chmod":
        if (there) chmodSync(at, Number.parseInt(step.mode, 8));
        break;
      case "link":
        if (!there) break;
        rmSync(at);
        symlinkSync("/etc/hostname", at);
        break;
      case "stray": {
        const stray = join(host.etc, step.kind === "blank name" ? "pg-it's * a name" : "pg-stray");
        rmSync(stray, { recursive: true, force: true });
        if (step.kind === "folder") {
          mkdirSync(join(stray, "inner"), { recursive: true });
          writeFileSync(join(stray, "inner/file"), "x");
        } else if (step.kind === "link") symlinkSync("/etc", stray);
        else writeFileSync(stray, "stray");
        break;
      }
      case "unload":
        rmSync(join(host.live, step.name.replaceAll("/", "%")), { force: true });
        break;
      case "delete stamp":
        rmSync(stampFile, { force: true });
        break;
      case "tamper stamp":
        mkdirSync(dirname(stampFile), { recursive: true });
        writeFileSync(stampFile, step.stamp);
        break;
      case "declare":
        files = { ...files, [step.name]: { text: step.text, mode: step.mode } };
        present = true;
        break;
      case "undeclare": {
        const { [step.name]: _, ...rest } = files;
        files = rest;
        break;
      }
      case "leave":
        present = false;
        break;
      case "fail":
        up({ ...files, [step.name]: { text: `${step.how}\n`, mode: "0644" } }, true);
        break;
      case "kill":
        files = { ...files, [step.name]: { text: step.text, mode: step.mode } };
        up(files, present, step.nth);
        break;
    }
    up(files, present);
    ensure(!host.tree().some((line) => line.includes(".pushgate-new")), "a temporary file stayed");
  }
}

/** Walks until `steps` steps are done; throws fast-check's report with seed and shrunk walk. */
export function soakWalks({ steps, seed }: { steps: number; seed: number }): Walked {
  const counts = nothingWalked();
  const perWalk = 12;
  void fc.assert(
    fc.property(actions(perWalk), (walked) => walk(walked, counts)),
    { seed, numRuns: Math.ceil(steps / (perWalk / 2)), interruptAfterTimeLimit: 3_600_000 },
  );
  return counts;
}
