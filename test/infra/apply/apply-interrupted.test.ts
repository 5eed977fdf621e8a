/** Applies that do not finish: stopped at the time limit, killed at each step, on a full disk. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import { after, asDeclared, before, copiedHost, daemonLayer, stamps } from "./shell-host.ts";

const { next } = stamps;

test("SIGTERM at the time limit makes apply restore the former files", async () => {
  using host = copiedHost();
  const layer = { ...daemonLayer(host, after), activate: "echo begun >&2; sleep 30" };
  const apply = spawn("setsid", ["-w", "sh", "-s"], { stdio: ["pipe", "ignore", "pipe"] });
  let stderr = "";
  apply.stderr.on("data", (chunk) => (stderr += chunk));
  const ended = once(apply, "close");
  apply.stdin.end(host.script(layer, next));
  await vi.waitFor(() => expect(stderr).toContain("begun"), 30_000);
  process.kill(-apply.pid!, "SIGTERM");
  expect(await ended).toEqual([1, null]);
  expect(stderr).toMatch(/failed at: (being stopped|activate)[\s\S]*the former files are back/);
  expect(asDeclared(host, before, true, [])).toBe(true);
});

test("a kill before the reload leaves no stamp, and the next apply reloads the files that had changed", () => {
  using host = copiedHost();
  // Unobserved: no fact shows whether the daemon has loaded the files.
  const layer = { ...daemonLayer(host, after), facts: [] };
  expect(host.apply({ ...layer, activate: "kill -9 $PPID" }, next).status).not.toBe(0);
  const verdict = reconcile(layer, host.see(layer));
  expect(verdict).toMatchObject({ inSync: false, drift: [{ text: "no stamp: the last apply did not finish" }] });
  expect(host.apply(layer, verdict.stamp).status).toBe(0);
  expect(asDeclared(host, after, true, [])).toBe(true);
});

test("a list of temporary files that was cut short removes nothing else, and would, without a look at the names", () => {
  const half = (script: (text: string) => string): boolean => {
    using host = copiedHost();
    const [left, folder] = [join(host.etc, ".pg-one.pushgate-new"), join(host.root, "elsewhere")];
    for (const path of [folder, join(host.state, "work")]) mkdirSync(path);
    writeFileSync(left, "half");
    writeFileSync(join(host.state, "work/temps"), `${left}\n${folder}\n`);
    expect(host.run(script(host.script(daemonLayer(host, after), next))).status).toBe(0);
    expect(existsSync(left)).toBe(false);
    return existsSync(folder);
  };
  expect(half((text) => text)).toBe(true);
  expect(half((text) => text.replace("*/.*.pushgate-new)", "*)"))).toBe(false);
});

test("without the temporary name, a kill leaves half a file live", () => {
  using host = copiedHost();
  const layer = daemonLayer(host, { ...before, "pg-one": { text: "x".repeat(100_000), mode: "0644" } });
  const inPlace = host
    .script(layer, next)
    .replace('cat -- "$work/new$1" >"$temp"', 'head -c 5 "$work/new$1" >|"$1"; kill -9 0');
  host.run(inPlace);
  expect(readFileSync(join(host.etc, "pg-one"), "utf8")).toBe("xxxxx");
});

const inside = (script: string) =>
  spawnSync("unshare", ["--user", "--map-root-user", "--mount", "sh", "-c", script], { encoding: "utf8" });
const cannot = inside("mount -t tmpfs none /mnt").status !== 0;

test.for(["etc", "var"])(
  "a full disk on %s makes apply fail with cause and fix, and the former files stay",
  (folder, ctx) => {
    if (cannot) ctx.skip("user namespaces are not allowed here: run as root");
    using host = copiedHost();
    const layer = daemonLayer(host, { ...before, "pg-one": { text: "x".repeat(60_000), mode: "0644" } });
    const files = layer.files.map((file) => ({ ...file, owner: "root:root" }));
    const script = join(host.root, "script");
    writeFileSync(script, host.script({ ...layer, files }, next));
    const full = join(host.root, folder);
    const ran = inside(`cp -a ${full} ${host.root}/was && mount -t tmpfs -o size=32k none ${full} &&
    cp -a ${host.root}/was/. ${full} && { sh -s <${script}; echo "exit $?"; cat ${host.etc}/pg-one; ls -A ${host.etc}; }`);
    expect(ran.stdout).toContain("exit 1\none\n");
    expect(ran.stdout).not.toContain("pushgate-new");
    expect(ran.stderr).toMatch(/(No space left on device|I\/O error)[\s\S]*fix: see whether the disk is full/);
  },
);
