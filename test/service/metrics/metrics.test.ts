/** The receiver's metrics, from the bundle on the sockets that systemd passes to it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { delivery, pushPayload } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { ActivatedReceiver, plain } from "../activated-receiver.ts";
import type { Rewrite } from "../bundles.ts";
import { spooledIn } from "../receiver/harness.ts";

let receiver: ActivatedReceiver;
beforeEach(() => {
  receiver = new ActivatedReceiver();
});
afterEach(() => receiver.remove());

/** A pattern that a line of a module no longer has. */
const without =
  (module: string, line: string, instead = ""): Rewrite =>
  (file, text) => {
    if (file !== module) return text;
    expect(text).toContain(line);
    return text.replace(line, instead);
  };

describe("the receiver counts", () => {
  test("accepted, ignored and rejected requests by hook and reason, from 0", async () => {
    await receiver.start();
    const before = await receiver.series();
    expect(before['pushgate_deliveries_accepted_total{hook="site"}']).toBe(0);
    expect(before['pushgate_requests_rejected_total{hook="docs",reason="signature"}']).toBe(0);
    const sent = [
      delivery(),
      delivery(),
      delivery({ event: "ping" }),
      delivery({ signature: null }),
      delivery({ secret: "x".repeat(40) }),
      delivery({ method: "PUT" }),
      delivery({ headers: { "content-type": "text/plain" } }),
      delivery({ body: Buffer.from("[]") }),
      delivery({ hook: "docs", secret: secrets.docs.current }),
      delivery({ path: "/elsewhere" }),
    ];
    for (const each of sent) await receiver.send(each);
    const after = await receiver.series();
    const changed = Object.entries(after).filter(([name, value]) => /_total/.test(name) && value !== before[name]);
    expect(Object.fromEntries(changed)).toEqual({
      'pushgate_deliveries_accepted_total{hook="site"}': 2,
      'pushgate_deliveries_accepted_total{hook="docs"}': 1,
      'pushgate_deliveries_ignored_total{hook="site"}': 1,
      'pushgate_requests_rejected_total{hook="site",reason="signature"}': 2,
      'pushgate_requests_rejected_total{hook="site",reason="method"}': 1,
      'pushgate_requests_rejected_total{hook="site",reason="content_type"}': 1,
      'pushgate_requests_rejected_total{hook="site",reason="payload"}': 1,
      // The first is the request by which the test found the receiver started.
      'pushgate_requests_rejected_total{reason="path"}': 2,
    });
  });

  test("what Node's parser rejects, without a hook", async () => {
    await receiver.start();
    const socket = connect(receiver.port, "127.0.0.1").end("hello\r\n\r\n");
    await new Promise((resolve) => socket.resume().once("close", resolve));
    expect((await receiver.series())['pushgate_requests_rejected_total{reason="payload"}']).toBe(1);
  });

  test("under no label that a sender chose", async () => {
    await receiver.start();
    const before = Object.keys(await receiver.series());
    const mark = "sender-wrote-this";
    const sent = [
      delivery({ path: `/webhook/${mark}` }),
      delivery({ path: `/webhook/site"} 1\n${mark}` }),
      delivery({ headers: { "content-type": mark } }),
      delivery({ event: mark }),
      delivery({ payload: pushPayload(mark) }),
      delivery({ headers: { "x-github-delivery": mark } }),
    ];
    for (const each of sent) await receiver.send(each);
    expect(receiver.journal).toContain(mark);
    const { text } = await receiver.ask();
    expect(text).not.toContain(mark);
    expect(Object.keys(await receiver.series())).toEqual(before);
  });

  test("with the journal's reason as label, a sender would make a series for each request", async () => {
    const rewrite: Rewrite = (file, text) =>
      file === "metrics/metrics.ts"
        ? text
            .replace("reasons[status] ?? otherReason", "(entry as unknown as { reason: string }).reason")
            .replace(
              "count({ hook, status }: Answered): void {",
              "count(entry: Answered): void {\nconst { hook, status } = entry;",
            )
            .replace("if (counts?.has(key)) counts.set", "counts?.set")
        : text;
    await receiver.start(rewrite);
    const before = Object.keys(await receiver.series()).length;
    for (let i = 0; i < 20; i++) await receiver.send(delivery({ path: `/webhook/none-${i}` }));
    expect(Object.keys(await receiver.series())).toHaveLength(before + 20);
    expect((await receiver.ask()).text).toContain("none-7");
  });
});

describe("the receiver reports", () => {
  test("how many deliveries wait in the spool, and the age of the oldest", async () => {
    await receiver.start();
    expect(await receiver.series()).toMatchObject({
      'pushgate_spool_deliveries{hook="site"}': 0,
      'pushgate_spool_oldest_seconds{hook="site"}': 0,
    });
    for (let i = 0; i < 3; i++) await receiver.send(delivery());
    const [oldest] = spooledIn(receiver.spool)[0]!;
    const hourAgo = Date.now() / 1000 - 3600;
    utimesSync(join(receiver.spool, oldest), hourAgo, hourAgo);
    // A power cut's half-written file is no delivery.
    writeFileSync(join(receiver.spool, "site/.half.tmp"), "");
    const series = await receiver.series();
    expect(series['pushgate_spool_deliveries{hook="site"}']).toBe(3);
    const age = series['pushgate_spool_oldest_seconds{hook="site"}']!;
    expect([age >= 3600, age < 3700]).toEqual([true, true]);
    expect(series['pushgate_spool_deliveries{hook="docs"}']).toBe(0);
  });

  test("nothing of a folder that is gone, and the other hook's", async () => {
    await receiver.start();
    rmSync(join(receiver.spool, "site"), { recursive: true });
    const series = await receiver.series();
    expect(series['pushgate_spool_deliveries{hook="site"}']).toBe(undefined);
    expect(series['pushgate_spool_deliveries{hook="docs"}']).toBe(0);
  });

  test("builds, failures and the last success of a hook with a site, as its builder wrote them", async () => {
    await receiver.start();
    expect(Object.keys(await receiver.series()).filter((name) => /build|success/.test(name))).toEqual([]);
    const runs = { published: 5, nothing: 7, failed: 2, rejected: 1, "rolled back": 1 };
    const failing = { since: "2026-11-21T08:00:00.000Z", attempts: 2, next: "2026-11-21T08:05:00.000Z" };
    const succeeded = "2026-11-21T07:00:00.000Z";
    writeFileSync(receiver.status, JSON.stringify({ hook: "site", runs, succeeded, failing }));
    expect(await receiver.series()).toMatchObject({
      'pushgate_builds_total{hook="site",result="published"}': 5,
      'pushgate_builds_total{hook="site",result="nothing"}': 7,
      'pushgate_builds_total{hook="site",result="failed"}': 2,
      'pushgate_builds_total{hook="site",result="rejected"}': 1,
      'pushgate_builds_total{hook="site",result="rolled_back"}': 1,
      'pushgate_build_failures{hook="site"}': 2,
      'pushgate_last_success_timestamp_seconds{hook="site"}': Date.parse(succeeded) / 1000,
    });
  });
});

describe("a status.json that the build account exchanged", () => {
  const status = { runs: { published: 5 }, succeeded: null };
  const tricks: Record<string, () => void> = {
    "a pipe that never ends": () => execFileSync("mkfifo", [receiver.status]),
    "a folder": () => mkdirSync(receiver.status),
    "a link to a hook's secret": () => symlinkSync(join(receiver.root, "credentials/site"), receiver.status),
    "a link to a status": () => {
      writeFileSync(join(receiver.root, "other.json"), JSON.stringify(status));
      symlinkSync(join(receiver.root, "other.json"), receiver.status);
    },
    "no JSON": () => writeFileSync(receiver.status, "{"),
    "text in place of a count": () => writeFileSync(receiver.status, '{"runs":{"published":"1} x"},"succeeded":null}'),
    "a result that does not exist": () => writeFileSync(receiver.status, '{"runs":{"x\\"} 1":1},"succeeded":null}'),
    "a file of 1 MiB": () => writeFileSync(receiver.status, JSON.stringify(status) + " ".repeat(1 << 20)),
  };

  test.each(Object.entries(tricks))("%s: no metric of its builds, and all others", async (_, make) => {
    await receiver.start();
    make();
    const { status, text } = await receiver.ask();
    expect(status).toBe(200);
    expect(text).toContain('pushgate_deliveries_accepted_total{hook="site"} 0\n');
    expect(text).not.toMatch(/pushgate_builds|failures|success/);
    expect((await receiver.send(delivery())).status).toBe(202);
  });

  test("without O_NOFOLLOW the receiver would follow the link", async () => {
    await receiver.start(without("metrics/builds.ts", " | constants.O_NOFOLLOW"));
    tricks["a link to a status"]!();
    expect((await receiver.ask()).text).toContain('pushgate_builds_total{hook="site",result="published"} 5');
  });

  test("without O_NONBLOCK a pipe would keep the request waiting", async () => {
    await receiver.start(without("metrics/builds.ts", " | constants.O_NONBLOCK"));
    execFileSync("mkfifo", [receiver.status]);
    let answered = false;
    const asked = receiver.ask().then(() => {
      answered = true;
    });
    // The receiver answers other requests in the meantime, so the first would have been answered as well.
    for (let i = 0; i < 20; i++) await receiver.send(delivery({ event: "ping" }));
    expect(answered).toBe(false);
    writeFileSync(receiver.status, "");
    await asked;
  });
});

describe("the two kinds of sockets:", () => {
  test("the socket for metrics admits no delivery", async () => {
    await receiver.start();
    const { method, path, headers, body } = delivery();
    expect((await receiver.ask(path, method, headers, body)).status).toBe(404);
    expect((await receiver.ask("/metrics", method, headers, body)).status).toBe(405);
    expect(spooledIn(receiver.spool)).toEqual([]);
  });

  test("without its name it would, past the allowlist of the git host's socket", async () => {
    await receiver.start(without("receiver/settings.ts", "names[i] === metricsName", "false"));
    const { method, path, headers, body } = delivery();
    expect((await receiver.ask(path, method, headers, body)).status).toBe(202);
    expect(spooledIn(receiver.spool)).toHaveLength(1);
  });

  test("a socket for deliveries answers no metrics", async () => {
    await receiver.start();
    for (const method of ["GET", "POST"])
      expect((await receiver.send(delivery({ method, path: "/metrics" }))).status).toBe(404);
  });

  test("with the names exchanged it would, and senders at the git host would read them", async () => {
    await receiver.start(undefined, "metrics:pushgate-receiver-github.socket");
    const answer = await receiver.send(plain("GET", "/metrics"));
    expect([answer.status, answer.body.includes("pushgate_deliveries_accepted_total")]).toEqual([200, true]);
  });

  test("a request for metrics is no line of the journal and no request of a source", async () => {
    await receiver.start();
    const before = receiver.journal;
    for (let i = 0; i < 100; i++) expect((await receiver.ask()).status).toBe(200);
    expect(receiver.journal).toBe(before);
  });
});

test("the answer is text of version 0.0.4: each metric with help and type, before its samples and once", async () => {
  await receiver.start();
  const { type, text } = await receiver.ask();
  expect(type).toBe("text/plain; version=0.0.4; charset=utf-8");
  const lines = text.split("\n");
  expect(lines.pop()).toBe("");
  const seen: string[] = [];
  for (const line of lines) {
    const [, name = ""] = /^# HELP (pushgate_[a-z_]+) [A-Z].*\.$/.exec(line) ?? [];
    if (name !== "") expect(seen).not.toContain(name);
    if (name !== "") seen.push(name);
    else
      expect(line).toMatch(
        new RegExp(
          `^(# TYPE ${seen.at(-1)} (counter|gauge)|${seen.at(-1)}(\\{[a-z]+="[a-z_-]+"(,[a-z]+="[a-z_-]+")*\\})? [0-9.]+)$`,
        ),
      );
  }
  for (const name of seen)
    expect([name, name.endsWith("_total")]).toEqual([name, text.includes(`# TYPE ${name} counter\n`)]);
});

test("another path is a 404 that names the right one, and another method a 405", async () => {
  await receiver.start();
  expect(await receiver.ask("/")).toMatchObject({ status: 404, text: "The metrics are at /metrics.\n" });
  expect((await receiver.ask("/metrics", "DELETE")).status).toBe(405);
});

test("SIGTERM ends the receiver with 0 while a client holds a connection for metrics", async () => {
  await receiver.start();
  const held = connect(receiver.path);
  await new Promise((resolve) => held.once("connect", resolve));
  held.on("error", () => {});
  expect((await receiver.ask()).status).toBe(200);
  expect(await receiver.end()).toEqual([0, null]);
  held.destroy();
});
