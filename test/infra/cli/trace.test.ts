/** `npx pushgate trace` on fake hosts: which lines it reads, what it prints, and its exit status. */
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Hosts, releases, status } from "./hosts.ts";

const hosts = new Hosts();
afterAll(() => hosts.remove());

const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const host = (name: string) => ({
  ...{ name, ssh: `root@${name}`, address: "192.0.2.1", hostname: `${name}-hooks.example.org` },
});
const site = { webRoot: "/var/www/site", content: "/srv/content/site" };
const hook = {
  name: "site",
  gitHost: "github",
  repository: "https://github.com/example/site.git",
  branch: "main",
  site,
};
const sent = "2026-11-23T09:59:58+00:00";

/** Writes the two logs of a host. */
function logged(name: string, nginx: readonly object[], receiver: readonly object[]): void {
  const line = { time: sent, delivery: id, hook: "site", client: "192.0.2.1", in_ranges: "1", limit: "PASSED" };
  const access = nginx.map((change) => `${JSON.stringify({ ...line, ...change })}\n`);
  hosts.write(name, "var/log/nginx/pushgate.log", access.join(""));
  const entry = { delivery: id, hook: "site", source: "192.0.2.1" };
  const journal = receiver.map((change) => {
    const micros = String(Date.parse(sent) * 1000);
    const fields = { __REALTIME_TIMESTAMP: micros, _SYSTEMD_UNIT: "pushgate-receiver.service" };
    return `${JSON.stringify({ ...fields, MESSAGE: JSON.stringify({ ...entry, ...change }) })}\n`;
  });
  hosts.write(name, "journal", journal.join(""));
  hosts.program(join(hosts.folder, name, "bin/journalctl"), `#!/bin/sh\ncat ${hosts.at(name, "journal")}\n`);
}
const passed = { status: 202, up_status: "202", up_connect: "0.000" };

beforeEach(() => {
  for (const name of ["web1", "web2"]) {
    hosts.add(name);
    logged(name, [], []);
  }
  hosts.configure([host("web1"), host("web2")], [hook]);
});

test("a delivery that systemd rejected: the path, the fix, what was seen and what was not, by one connection a host", async () => {
  logged("web2", [{ status: 403, up_status: "504", up_connect: "-", in_ranges: "0" }], []);
  const { code, stdout } = await hosts.run(
    "trace",
    "--delivery",
    id,
    "--status",
    "403",
    "--header",
    "x-served-by: pushgate-proxy",
  );
  expect(code).toBe(1);
  expect(stdout).toMatchInlineSnapshot(`
    "web2, 2026-11-23T09:59:58.000Z
      the git host            sent it
      1 DNS                   passed
      2 WAF                   passed
      3 bot management        passed
      4 Cloudflare to origin  passed
      5 firewall              passed
      6 nginx                 passed
      7 systemd               rejected it
      8 receiver              not reached
    certain: systemd rejected the connection: the source is outside of the git host's ranges.
      fix: Compare the source with the ranges that the git host publishes and with infra/networks.ts. A self-hosted git host's belong in hooks[].sources.
    seen:
      the git host's page     403 {"x-served-by":"pushgate-proxy"}
      Cloudflare's events     not looked at: it let the request pass: X-Served-By names the host
      nginx                   {"status":403,"up_status":"504","up_connect":"-","in_ranges":"0","limit":"PASSED","client":"192.0.2.1"}
      receiver                no line

    "
  `);
});

test("a delivery that was accepted exits with 0, and names the release that was published after it", async () => {
  logged("web1", [passed], [{ status: 202, reason: "accepted" }]);
  const { code, stdout } = await hosts.run("trace", "--delivery", id);
  expect(code).toBe(0);
  expect(stdout).toContain("certain: the receiver accepted it.");
  expect(stdout).toContain(`published: commit ${releases[0]!.commit.slice(0, 12)} at 2026-11-23T10:00:00.000Z`);
});

test("a delivery after the last build is not published yet", async () => {
  hosts.add("web1", {
    statusJson: status({
      deployed: null,
      last: { ...status().last, at: "2026-11-20T10:00:00.000Z", result: "failed" },
    }),
  });
  logged("web1", [passed], [{ status: 202, reason: "accepted" }]);
  expect((await hosts.run("trace", "--delivery", id)).stdout).toContain(
    "not published: the last build ended at 2026-11-20T10:00:00.000Z: failed",
  );
});

test("each attempt has a verdict of its own, and the last one is the exit status", async () => {
  const rejected = { status: 401, up_status: "401", up_connect: "0.000" };
  logged(
    "web1",
    [rejected, passed],
    [
      { status: 401, reason: "no signature" },
      { status: 202, reason: "accepted" },
    ],
  );
  const { code, stdout } = await hosts.run("trace", "--delivery", id, "--json");
  expect(code).toBe(0);
  const found = JSON.parse(stdout) as { certainty: string; outcomes: { name: string }[]; host: string }[];
  expect(found.map(({ outcomes, certainty, host }) => [outcomes[0]!.name, certainty, host])).toEqual([
    ["signature", "certain", "web1"],
    ["accepted", "certain", "web1"],
  ]);
});

describe("without a line on any host", () => {
  test.each([
    [["--status", "522"], 1, /certain: Cloudflare could not connect to the host's origin port/],
    [
      ["--status", "403", "--header", "CF-Mitigated: challenge"],
      1,
      /3 bot management +probably rejected it[\s\S]*likely: Bot Fight Mode .*\n {2}fix: /,
    ],
    [
      ["--status", "403"],
      2,
      /unknown: a custom rule[\s\S]*unknown: an IP Access rule[\s\S]*unknown: Browser Integrity Check/,
    ],
    [[], 2, /nginx +no line/],
    [["--status", "599"], 2, /no outcome that pushgate knows fits/],
  ])("%j exits with %i", async (words, code, text) => {
    const ran = await hosts.run("trace", "--delivery", id, ...words);
    expect(ran.stdout).toMatch(text);
    expect(ran.code).toBe(code);
  });
});

test("by a status alone no host is looked at", async () => {
  const { code, stdout } = await hosts.run("trace", "--status", "526");
  expect(code).toBe(1);
  expect(stdout).toMatch(/4 Cloudflare to origin +rejected it[\s\S]*nginx +not looked at/);
});

test.each([
  ["nothing", [], 1, /there is nothing to trace\. Add --delivery or --status/],
  ["an id with a quote", ["--delivery", "'x"], 1, /--delivery is 'x\. Use the id/],
  ["a status that is none", ["--status", "4o3"], 2, /Use the status that the git host shows/],
  ["a header without a colon", ["--status", "403", "--header", "cf-ray"], 2, /Write it as 'name: value'/],
])("rejects %s", async (_, words, code, line) => {
  const ran = await hosts.run("trace", ...words);
  expect(ran.stderr).toMatch(line);
  expect(ran.code).toBe(code);
});
