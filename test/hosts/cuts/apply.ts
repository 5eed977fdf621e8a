/**
 * The power is cut at each step of an apply, of one that fails, and of a removal. After the cut each file is the whole
 * former one or the whole new one, preview reports what is missing, the next apply repairs it, and a removal leaves
 * nothing.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { type Step, withoutStep } from "../../cuts/durable-steps.ts";
import {
  after,
  appliedHost,
  asDeclared,
  before,
  daemonLayer,
  type Files,
  ShellHost,
} from "../../infra/apply/shell-host.ts";
import { CutDisk, type Cuts, type Terms } from "./disk.ts";

/** No fact shows what `activate` did; that is on the disk when it ends. So preview has the stamp alone. */
function arriving(host: ShellHost): HostLayer {
  const layer = daemonLayer(host, after);
  return { ...layer, facts: [], activate: `${layer.activate}\nsync "${host.live}" "${host.live}"/*` };
}
const failing = (host: ShellHost): HostLayer => ({ ...arriving(host), activate: "exit 1" });
const leaving = (host: ShellHost): HostLayer => daemonLayer(host, {}, false);

/** The cuts in an apply on such a host that ends so; `step`: one of apply.sh that is left out. */
const cutsIn =
  (layerOf: (host: ShellHost) => HostLayer, exit = 0, hostIn = appliedHost) =>
  async (terms: Terms, step?: Step): Promise<Cuts> => {
    using disk = new CutDisk(terms);
    using host = hostIn(disk.folder);
    const had = existsSync(join(host.etc, "pg-one")) ? before : {};
    disk.sync();
    const base = host.tree().filter((line) => !line.startsWith("pg"));
    const layer = layerOf(host);
    const script = host.script(layer, reconcile(layer, host.see(layer)).stamp);
    const ran = host.watchedApply(step ? withoutStep(step, script) : script, disk.program);
    if (ran.status !== exit) throw new Error(`the apply ended with ${ran.status}: ${ran.stderr}`);
    disk.cut();

    // A person who corrects what failed declares the same files.
    const present = layer.present !== false;
    const wanted = present ? arriving(host) : layer;
    const isAsDeclared = () => asDeclared(host, present ? after : {}, present, base);
    return await disk.afterEach(host.root, (_, isLast) => {
      const faults = tornFiles(host, had, present ? after : {});
      const verdict = reconcile(wanted, host.see(wanted));
      if (isLast && exit === 0 && !verdict.inSync) faults.push("what was reported is not on the disk");
      if (verdict.inSync && !isAsDeclared()) faults.push("preview misses what is not as declared");
      if (!verdict.inSync && (host.apply(wanted, verdict.stamp).status !== 0 || !isAsDeclared()))
        faults.push("the next apply does not repair it");
      if (present) host.apply(leaving(host), "absent-0.1.0-0123456789ab");
      const left = host.tree().filter((line) => !base.includes(line));
      return left.length > 0 ? [...faults, `a removal leaves ${left.join(", ")}`] : faults;
    });
  };

export const cutsInApplies = {
  "first arrival": cutsIn(arriving, 0, (parent) => new ShellHost(parent)),
  arrival: cutsIn(arriving),
  failure: cutsIn(failing, 1),
  removal: cutsIn(leaving),
};

function tornFiles(host: ShellHost, former: Files, next: Files): string[] {
  return Object.keys({ ...former, ...next }).flatMap((name) => {
    const path = join(host.etc, name);
    const text = existsSync(path) ? readFileSync(path, "utf8") : undefined;
    return [former[name]?.text, next[name]?.text].includes(text) ? [] : [`${name} is ${JSON.stringify(text)}`];
  });
}
