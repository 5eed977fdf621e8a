/**
 * A fake of hugo's units: a connection to its socket starts hugo as a child process with the unit's arguments and
 * environment, and none of its confinement. Output and a last line go back over the connection, as from the unit.
 * `node test/builder/fake-hugo.ts <builder.json>` runs it alone.
 */
import { spawn } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { hugoArguments, hugoEnvironment } from "../../../infra/host/builder/hugo.ts";
import { placesOf } from "../../../service/builder/places.ts";
import type { BuilderSettings } from "../../../service/builder/settings.ts";

/** The program and the policies of `hooks[].site.hugo`. */
export type FakeHugo = { readonly path?: string; readonly exec?: readonly string[]; readonly http?: readonly string[] };

export async function startFakeHugo(
  settings: BuilderSettings,
  { path = "hugo", exec = [], http = [] }: FakeHugo = {},
): Promise<Server> {
  const { clone, out, cache, work } = placesOf(settings);
  const { content, hugo, limits } = settings;
  const args = hugoArguments({ source: clone, content, destination: out, cache });
  const env = { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...hugoEnvironment(cache, { exec, http }) };
  let busy = false;
  const server = createServer((connection) => {
    connection.on("error", () => {});
    // MaxConnections=1: the second is closed at once, without a last line.
    if (busy) return connection.destroy();
    busy = true;
    // A group of its own stands in for the unit's control group.
    const child = spawn(path, args, { cwd: work, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    const kill = (signal: NodeJS.Signals) => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal);
      } catch {}
    };
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      kill("SIGTERM");
    }, limits.seconds * 1000);
    for (const output of [child.stdout, child.stderr]) output.pipe(connection, { end: false });
    // The builder was killed: its unit stops this one before the next build.
    connection.on("close", () => kill("SIGKILL"));
    const end = (result: string, code: string, status: string) => {
      clearTimeout(timer);
      busy = false;
      connection.end(`pushgate-hugo result=${result} code=${code} status=${status}\n`);
    };
    // systemd's status of an ExecStart= that can't be executed.
    child.on("error", () => end("exit-code", "exited", "203"));
    child.on("exit", () => kill("SIGKILL"));
    child.on("close", (code, signal) => {
      if (signal) end(late ? "timeout" : "signal", "killed", signal.replace("SIG", ""));
      else if (child.pid !== undefined) end(code === 0 ? "success" : "exit-code", "exited", String(code));
    });
  });
  rmSync(hugo.socket, { force: true });
  await new Promise<void>((resolve) => server.listen(hugo.socket, resolve));
  return server;
}

if (import.meta.main ?? process.argv[1] === import.meta.filename)
  await startFakeHugo(JSON.parse(readFileSync(process.argv[2]!, "utf8")) as BuilderSettings);
