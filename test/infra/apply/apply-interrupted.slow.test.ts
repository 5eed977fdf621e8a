/** Kills at each step of an apply. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { after, asDeclared, copiedHost, daemonLayer, stampOf } from "./shell-host.ts";

test("a kill at any step leaves no half-written file, preview reports it, and the next apply repairs it", {
  timeout: 120_000,
}, () => {
  let killed = 0;
  for (let nth = 1; ; nth++) {
    using host = copiedHost();
    const layer = daemonLayer(host, after);
    const wanted = reconcile(layer, host.see(layer));
    if (host.killedApply(host.script(layer, wanted.stamp), nth).status === 0) break;
    killed++;
    expect(["one\n", "1\n"]).toContain(readFileSync(join(host.etc, "pg-one"), "utf8"));
    const again = reconcile(layer, host.see(layer));
    // In sync only if every other step was done; the host's stamp is then the new one.
    if (again.inSync) expect(stampOf(host)).toBe(wanted.stamp);
    expect(host.apply(layer, again.stamp)).toMatchObject({ status: 0 });
    expect(asDeclared(host, after, true, [])).toBe(true);
    expect(host.tree().join("\n")).not.toContain("pushgate-new");
    expect(existsSync(join(host.state, "pending/daemon"))).toBe(false);
  }
  expect(killed).toBeGreaterThan(15);
});
