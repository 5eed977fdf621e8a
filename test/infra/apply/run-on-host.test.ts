/** Scripts on a host, with an ssh that runs them here, ends early, prints too much or does not exist. */
import { readFileSync, symlinkSync } from "node:fs";
import { Readable } from "node:stream";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { feedHost, followOnHost, HostDown, runOnHost } from "../../../infra/apply/run-on-host.ts";
import { UserError } from "../../../infra/user-error.ts";
import { Root } from "../host/namespace.ts";

let root: Root;
beforeEach(() => {
  root = new Root();
});
afterEach(() => void vi.unstubAllEnvs());

/** Its output begins with the mark, after what a login shell prints. */
const begun = "echo Welcome; printf 'No line end.pushgate: begin\\n'";
/** Runs the command as a host does. */
const remote = 'for command; do :; done; eval "$command"';

/** Longer than a pipe holds, so that a fake ssh that does not read it closes the pipe while it is written. */
const script = "# a comment\n".repeat(100_000);
const host = { name: "web1", ssh: "root@web1", sudo: false };

function makeSsh(body: string): void {
  root.write("ssh", `#!/bin/sh\n${body}\n`, 0o755);
  vi.stubEnv("PATH", `${root.folder}:${process.env.PATH}`);
}

function fakeSsh(body: string, effect?: string): Promise<string> {
  makeSsh(body);
  return runOnHost(host, script, 30, effect);
}

test("runOnHost sends the script on standard input, and returns its output", async () => {
  expect(await fakeSsh(`${begun}; sed 1,3d | wc -l`)).toMatch(/^ *100000$/);
});

test("runOnHost succeeds if ssh ends without an error before it has read the script", async () => {
  expect(await fakeSsh(`${begun}; echo done`)).toBe("done");
});

test.each([
  ["no host", "echo 'Connection refused' >&2; exit 255", /^web1: the host is unreachable; it may have arrived\. /],
  ["a program on the host has no connection", "echo 'Connection refused' >&2; exit 1", /^web1: the host is unreach/],
  ["the time is over", "exit 124", /^web1: the host did not answer in time; it may have arrived\. Find out what/],
  ["the script fails and prints why", "printf 'other\\npushgate: no builder\\n' >&2; exit 1", /^web1: no builder$/],
  ["another program names it", "echo 'see pushgate: x' >&2; exit 1", /^web1: the connection or the command failed; /],
  ["what it prints moves the cursor", "printf 'pushgate: \\033[2Jno\\302\\233\\n' >&2; exit 1", /^web1: \?\[2Jno\?$/],
  ["the login runs no command", "echo Not available.; exit 1", /^web1: .*\n {2}ssh printed: Not available\.$/],
  ["the login does not even fail", "echo Not available.", /^web1: .*\n {2}ssh printed: Not available\.$/],
  ["ssh is killed", "kill -9 $$", /^web1: the connection or the command failed;/],
  ["the host prints more than 16 MiB", "head -c 17000000 /dev/zero", /^web1: its answer is longer than 16 MiB/],
])("runOnHost throws one message with the host's name if %s", async (what, body, message) => {
  const kind = what === "no host" ? HostDown : UserError;
  const fault = await fakeSsh(body, "it may have arrived").catch((error: unknown) => error);
  expect(fault).toMatchObject({ constructor: kind, message: expect.stringMatching(message) });
});

test("feedHost has a script read the data, and throws why the data ended early", async () => {
  makeSsh(remote);
  await feedHost(host, `cat >${root.at("fed")}`, Readable.from([Buffer.from("archive")]), 30);
  expect(readFileSync(root.at("fed"), "utf8")).toBe("archive");
  const cut = Readable.from([]).destroy(new UserError("not found"));
  await expect(feedHost(host, "cat", cut, 30)).rejects.toThrow(/^not found$/);
});

test("followOnHost returns lines until the script ends, throws why it failed, and ends it if no more are read", async () => {
  makeSsh(remote);
  const lines = followOnHost(host, "echo one; exit\n");
  expect([await lines.next(), (await lines.next()).done]).toEqual([{ value: "one", done: false }, true]);
  const failed = followOnHost(host, "echo pushgate: no journal >&2; exit 1\n");
  await expect(failed.next()).rejects.toThrow(/^web1: no journal$/);
  const endless = followOnHost(host, "echo $$; exec sleep 60\n");
  const pid = Number((await endless.next()).value);
  await endless.return(undefined);
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), 10_000);
});

test("followOnHost ends at a line of more than 1 MiB", async () => {
  makeSsh(`${begun}; echo one; exec head -c 2000000 /dev/zero`);
  const lines = followOnHost(host, "");
  expect((await lines.next()).value).toBe("one");
  await expect(lines.next()).rejects.toThrow("web1: a line of its answer has no end.");
});

test("ssh gets no variable of Pulumi or Cloudflare, which hold secrets", async () => {
  vi.stubEnv("PULUMI_CONFIG", "secret");
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "secret");
  vi.stubEnv("SSH_AUTH_SOCK", "socket");
  const names = (await fakeSsh(`${begun}; env`)).split("\n").map((line) => line.replace(/=.*/, ""));
  expect(names).toContain("SSH_AUTH_SOCK");
  expect(names).not.toContain("PULUMI_CONFIG");
  expect(names).not.toContain("CLOUDFLARE_API_TOKEN");
});

test("runOnHost reports that ssh is not installed", async () => {
  symlinkSync("/bin/sh", root.at("sh"));
  vi.stubEnv("PATH", root.folder);
  await expect(runOnHost(host, script, 30)).rejects.toThrow(
    /^web1: ssh is not on PATH; .*\. Install the OpenSSH client/,
  );
});
