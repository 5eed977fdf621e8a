/** A server that says nothing, and a terminal. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { expect, test } from "vitest";
import { environment } from "../../../../service/builder/source/git.ts";
import { onLoopback } from "../../receiver-process.ts";
import { type Changes, changed } from "./git-lines.ts";
import { at, builder, look, onSshHost, pinned, publicKey, server } from "./ssh-scene.ts";

onSshHost();

test("ssh rejects an unknown host key also at a terminal, and would wait for an answer there", () => {
  writeFileSync(at(pinned), "");
  const asked = (changes: Changes) => {
    const { GIT_SSH_COMMAND: command } = changed(environment(builder()), changes);
    const words = `${command} -p ${server.port} ${userInfo().username}@127.0.0.1`;
    return spawnSync("script", ["-qec", words, "/dev/null"], { input: "no\n", encoding: "utf8", timeout: 10_000 })
      .stdout;
  };
  const strict = asked({});
  expect(strict).toMatch(/Host key verification failed/);
  expect(strict).not.toMatch(/continue connecting/);
  expect(asked({ StrictHostKeyChecking: undefined })).toMatch(/Are you sure you want to continue connecting/);
});

test("a server that says nothing, at once or in the middle, is left, and would be waited for", async () => {
  const { server: silent, port } = await onLoopback();
  const mute = builder(undefined, port);
  const hang = `restrict,command="echo $PPID >>${at("stopped")}; kill -STOP $PPID; sleep 60"`;
  writeFileSync(at("authorized_keys"), `${hang} ${publicKey("deploy")}\n`);
  const said = await Promise.all([
    look({ ConnectTimeout: "1" }, mute),
    look({ ConnectTimeout: undefined }, mute, 6),
    look({ ServerAliveInterval: "1" }),
    look({ ServerAliveInterval: undefined }, builder(), 6),
  ]);
  silent.close();
  const stopped = readFileSync(at("stopped"), "utf8").trim().split("\n");
  for (const pid of stopped) process.kill(Number(pid), "SIGKILL");
  expect(stopped).toHaveLength(2);
  expect(said).toEqual([
    expect.stringMatching(/timed out/i),
    "late",
    expect.stringMatching(/Could not read from remote repository/),
    "late",
  ]);
});
