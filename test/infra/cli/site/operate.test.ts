/** `npx pushgate` hook, secret, notify and logs, its options, and what it prints where one is wrong. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import { version } from "../../../../infra/apply/version.ts";
import { keptByNpm } from "../../../../infra/cli/command.ts";
import { reader } from "../../../../infra/cli/site/logs.ts";
import { testScript } from "../../../../infra/cli/site/notify.ts";
import { missing } from "../../host/namespace.ts";
import { ends, Hosts, hookOf } from "../hosts.ts";

const hosts = new Hosts();

const hook = hookOf({ site: { webRoot: "/var/www/site", content: "/srv/content/site" } });
const plain = { name: "docs", gitHost: "gitea", sources: ["192.0.2.7"], repository: hook.repository, branch: "main" };
const current = "c".repeat(44);
const calls = () => hosts.read("calls.log").trim().split("\n");

beforeEach(() => {
  for (const name of ["web1", "web2"]) hosts.add(name);
  hosts.configure(["web1", "web2"], [hook, plain], { site: { current } });
});

describe("hook", () => {
  test("prints what to enter at the git host, for each hook and host, and one as JSON", async () => {
    const { code, stdout } = await hosts.run("hook");
    expect(code).toBe(0);
    // After the four webhooks, how each hook's is set by the API, and how results of builds get onto the site's commits.
    expect(stdout.trim().split("\n\n")).toHaveLength(7);
    expect(stdout).toContain(`site on web1
  at            https://github.com/example/site.git: Settings > Webhooks > Add webhook
  URL           https://web1-hooks.example.org/webhook/site
  content type  application/json
  secret        ${current}
  events        push only
`);
    expect(stdout).toMatch(/docs on web2[\s\S]*secret {8}not set; run npx pushgate secret rotate docs/);
    expect(stdout).toContain(`
To have the result of each build of site set on its commit, make a token for https://github.com/example/site.git
  at            your account's Settings > Developer settings > Fine-grained tokens, for this repository only
  with          Commit statuses: Read and write
  and run       npx pulumi config set --secret --path pushgate:secrets.site.status
`);
    const one = { hook: "site", host: "web2", url: "https://web2-hooks.example.org/webhook/site", secret: current };
    const ran = await hosts.run("hook", "site", "--host", "web2", "--json");
    expect(JSON.parse(ran.stdout)).toEqual([{ ...one, contentType: "application/json", events: ["push"] }]);
  });

  test("prints that results are set on commits once there is a token for it", async () => {
    hosts.configure(["web1"], [hook], { site: { current, status: "t".repeat(40) } });
    const { stdout } = await hosts.run("hook", "site");
    expect(stdout).toContain("The result of each build of site is set on its commit.");
    expect(stdout).not.toContain("ttt");
  });

  test("a hook of GitLab gets a signing token, under the name that GitLab's form has for it", async () => {
    const repository = "https://gitlab.com/a/b.git";
    const lab = { name: "lab", gitHost: "gitlab", repository, branch: "main" };
    hosts.configure(["web1"], [lab], {});
    expect((await hosts.run("secret", "rotate", "lab")).code).toBe(0);
    // A first secret has no previous one.
    const [call, ...more] = calls();
    const key = /<(whsec_[A-Za-z0-9+/]{43}=)>/.exec(call!)?.[1];
    expect([key === undefined, more]).toEqual([false, []]);
    hosts.configure(["web1"], [lab, { ...lab, name: "old" }], { lab: { current: key }, old: { current } });
    const { stdout } = await hosts.run("hook");
    expect(stdout).toContain(`signing token ${key}\n`);
    expect(stdout).toContain(`secret token  ${current}\n`);
    expect(stdout).toContain("push only, of the project: a System Hook starts no build\n");
  });
});

describe("secret", () => {
  test("rotate makes the current secret the previous one, never as an argument, and prints the steps", async () => {
    const { code, stdout, stderr } = await hosts.run("secret", "--stack", "prod", "rotate", "site");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("npx pushgate secret drop site");
    const [first = "", second = "", ...more] = calls();
    expect(first).toBe(`config set --secret --path pushgate:secrets.site.previous --stack prod <${current}>`);
    expect(second).toMatch(
      /^config set --secret --path pushgate:secrets\.site\.current --stack prod <[A-Za-z0-9+/]{43}=>$/,
    );
    expect(more).toEqual([]);
  });

  test("rotate changes nothing while a rotation lasts, and drop ends it", async () => {
    hosts.configure(["web1"], [hook], { site: { current, previous: "p".repeat(44) } });
    const line = "Finish it first: npx pushgate secret drop site";
    expect(await hosts.run("secret", "rotate", "site")).toMatchObject(ends(1, "", line));
    expect(calls()).toEqual([""]);
    hosts.write("pulumi.log", "");
    expect((await hosts.run("secret", "drop", "site")).code).toBe(0);
    // A start of pulumi takes a second: one reads all that it needs.
    const rm = "config rm --path pushgate:secrets.site.previous";
    expect(hosts.read("pulumi.log")).toBe(`config --json --show-secrets\n${rm}\n`);
    expect(calls()).toEqual([`${rm} <>`]);
  });
});

describe("notify", () => {
  const recipient = { url: "https://chat.example.org/hooks/", format: "slack" };
  const notify = ["team", "ops"].map((name) => ({ ...recipient, name }));
  const notified = hookOf({ site: { webRoot: "/var/www/site", notify } });
  const answer = (name: string, result = "sent", reason = "200 ok") => ({
    ...{ to: `notify.${name}`, host: "chat.example.org", result, reason },
  });
  /** A reporter that is started with a test answers this in its journal. */
  const report = (name: string, ...answers: readonly object[]) => {
    hosts.write(`${name}/etc/pushgate/reporter/site.json`, "{}");
    const line = `{"hook":"site","test":"$PUSHGATE_TEST","answers":${JSON.stringify(answers)}}`;
    hosts.program(
      `${name}/bin/systemctl`,
      `cd ${hosts.at(name)}; echo "$*" >called; . ./run/pushgate-notify-site; echo "x\n${line.replaceAll('"', '\\"')}" >journal`,
    );
  };
  const test1 = () => hosts.run("notify", "site", "--test", "--host", "web1");
  beforeEach(() => hosts.configure(["web1", "web2"], [notified, plain]));

  test("has the reporter of each host send a test, prints each answer, and leaves no request", async () => {
    for (const name of ["web1", "web2"]) report(name, answer("team"), answer("ops"));
    const lines = ["web1: team", "web1: ops", "web2: team", "web2: ops"];
    const stdout = lines.map((line) => `${line} at chat.example.org: took it: 200 ok\n`).join("");
    expect(await hosts.run("notify", "site", "--test")).toEqual({ code: 0, stdout, stderr: "" });
    expect(hosts.read("web1/called")).toBe("restart pushgate-report@site.service\n");
    expect(existsSync(hosts.at("web1/run/pushgate-notify-site"))).toBe(false);
  });

  test("fails where a recipient did not take it, and prints the others", async () => {
    report("web1", answer("team"), answer("ops", "rejected", "404 no_team\u001b"));
    const failed = "pushgate: web1: ops at chat.example.org: failed: 404 no_team?\n";
    expect(await test1()).toMatchObject(ends(1, /^web1: team at .*: took it: 200 ok\n$/, failed));
    const { code, stdout } = await hosts.run("notify", "site", "--test", "--host", "web1", "--json");
    const sent = { host: "web1", recipient: "team", server: "chat.example.org", result: "sent", reason: "200 ok" };
    expect([code, JSON.parse(stdout)]).toEqual([1, [sent, expect.objectContaining({ result: "rejected" })]]);
  });

  test("says what is missing: a recipient, a reporter on the host, its answer", async () => {
    expect(await test1()).toMatchObject(ends(1, "", "site has no reporter on this host. Run npx pulumi up."));
    report("web1", {});
    expect(await test1()).toMatchObject(ends(1, "", "its reporter is another release's. Run npx pulumi up."));
    hosts.configure(["web1"], [hook]);
    expect(await test1()).toMatchObject(ends(1, "", "site has no recipient. Add one to site.notify."));
    const script = testScript("site", 0).replace('[ -e "$settings" ]', ":").replace('>"$test"', ">/dev/null");
    const { status, stderr } = spawnSync("sh", ["-s"], { input: `systemctl() { :; }\nrm() { :; }\n${script}` });
    expect([status, `${stderr}`]).toEqual([1, expect.stringContaining("has not answered in 0 s. Read: journalctl")]);
  });
});

describe("logs", () => {
  const journal = (micros: number, unit: string, message: unknown) =>
    `j ${JSON.stringify({ __REALTIME_TIMESTAMP: String(micros), _SYSTEMD_UNIT: unit, MESSAGE: message })}`;

  test("lines have a time, a source and a text without control characters", () => {
    const read = reader("web1");
    expect(read("z +0200")).toBeUndefined();
    expect(read(journal(1_790_000_000_000_000, "pushgate-receiver.service", "\u001b[31mred\nj forged"))).toEqual({
      ...{ time: "2026-09-21T14:13:20.000Z", host: "web1", source: "receiver", text: "?[31mred?j forged" },
    });
    const bytes = [...Buffer.from("bytes\xff", "latin1")];
    const built = { source: "builder", text: "bytes\ufffd" };
    expect(read(journal(0, "pushgate-build@site.service", bytes))).toMatchObject(built);
    expect(read('n {"time":"2026-11-22T20:00:00+02:00","status":403}')?.time).toBe("2026-11-22T18:00:00.000Z");
    expect(read("n 2026/11/22 20:00:01 [error] 7#7: *1 connect() failed")?.time).toBe("2026-11-22T18:00:01.000Z");
    expect(read("n no time at all")).toMatchObject({ time: "unknown time", source: "nginx" });
    expect(read("a line of a login shell")).toBeUndefined();
  });

  test("each log has its own last lines, and --since counts for nginx's files, too", async ({ skip }) => {
    const reason = missing("systemd-analyze");
    skip(reason !== undefined, reason);
    const ago = (minutes: number) => new Date(Date.now() - 60_000 * minutes).toISOString().replace(/\.\d+Z/, "+00:00");
    const access = [20, 3, 2].map((minutes) => `${JSON.stringify({ time: ago(minutes), status: minutes })}\n`);
    hosts.write("web1/var/log/pushgate-nginx/hooks.log", access.join(""));
    // A journal of three lines for each unit that the command queries.
    const entry = `{"__REALTIME_TIMESTAMP":"${Date.now() * 1000}","_SYSTEMD_UNIT":"pushgate-%s.service","MESSAGE":"x"}\n`;
    const three = `case "$*" in *=pushgate-$unit.service*) printf '${entry.repeat(3)}' $unit $unit $unit ;; esac`;
    hosts.program("web1/bin/journalctl", `for unit in guard receiver; do ${three}; done`);
    const { stdout } = await hosts.run("logs", "--host", "web1", "--lines", "2", "--since", "10 min ago", "--json");
    const lines = stdout.trim().split("\n");
    const sources = lines.map((line) => JSON.parse(line).source).sort();
    expect(sources).toEqual(["guard", "guard", "nginx", "nginx", "receiver", "receiver"]);
    const nginx = (since: string) => hosts.run("logs", "nginx", "--host", "web1", "--since", since, "--json");
    const since = new Date(Date.now() - 150_000).toISOString();
    for (const one of ["150 sec ago", since, since.replace("Z", "+00:00")])
      expect((await nginx(one)).stdout.trim().split("\n"), one).toHaveLength(1);
    expect((await nginx("1d")).stdout.trim().split("\n")).toHaveLength(3);
    const line = /^pushgate: web1: systemd cannot read --since "3 dayz"\. Use a time such as 3d, /;
    expect(await nginx("3 dayz")).toMatchObject(ends(1, /^$/, line));
  });

  test.each(["logs guard", "deploys"])("%s --follow reports a host at once, not when the others end", async (words) => {
    hosts.configure(["gone", "away"], [hook]);
    const { code, stderr } = await hosts.run(...words.split(" "), "--follow");
    expect([code, stderr.match(/^pushgate: (gone|away): its name does not resolve/gm)]).toEqual([
      1,
      expect.objectContaining({ length: 2 }),
    ]);
  });

  test("logs prints the lines of the hosts that answer although another one does not", async ({ skip }) => {
    const reason = missing("systemd-analyze");
    skip(reason !== undefined, reason);
    hosts.configure(["web1", "gone"], [hook]);
    hosts.log("web1", undefined, { hook: "site" });
    expect(await hosts.run("logs", "receiver")).toMatchObject(ends(1, '{"hook":"site"}', /^pushgate: gone: its name/));
  });
});

describe("command line", () => {
  test.each([
    ["logs apache", /value 'apache' is invalid .* are receiver, builder, nginx, guard\./],
    ["logs --lines none", /argument 'none' is invalid\. Use a number/],
    ["logs --follow --since yesterday", /'-f, --follow' cannot be used with .*'--since/],
    ["logs --since `id`", /argument '`id`' is invalid\. Use a time/],
    ["deploys --failed show 12", /^error: show has no option --failed\n$/],
    ["notify site", /required option '--test' not specified/],
    ["rollback", /^error: missing required argument 'hook'\n$/],
    ["trace", /^error: there is nothing to trace\. Add --delivery or --status/],
    ["trace --delivery a --last 1", /'--delivery <id>' cannot be used with option '--last/],
    ["trace --last 1 --since 1d", /'--last <number>' cannot be used with .*'--since/],
    ["trace --delivery a --header a:b", /Add --status/],
    ["trace --delivery 'x", /argument ''x' is invalid\. Use the id/],
    ["trace --status 4o3", /Use the status that the git host shows/],
    ["trace --status 403 --header cf-ray", /Write it as 'name: value'/],
    ["where HEAD", /Use at least 7 digits/],
    ["where 0123456 --page x", /Use a path of the site/],
    ["where 0123456 --page //x", /Use a path of the site/],
  ])("%s ends with 2", async (words, line) => {
    expect(await hosts.run(...words.split(" "))).toMatchObject(ends(2, "", line));
  });

  test("--version prints the version, and --help of the program and of each command has examples", async () => {
    expect(await hosts.run("--version")).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
    const { code, stdout } = await hosts.run("--help");
    expect(code).toBe(0);
    const names = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name!).filter((name) => name !== "npx");
    expect(names).toHaveLength(15);
    expect(stdout).toMatch(/Exit status:\n {2}0 /);
    for (const name of names)
      expect((await hosts.run(name, "--help")).stdout, name).toMatch(/^Usage: pushgate [\s\S]*\nExamples:\n {2}npx /);
  });

  test.each([
    ["v22.17.1", 1, /^pushgate needs Node 22\.18 or later, and this is .*\n$/],
    ["v22.18.0", 0, /^$/],
  ])("Node %s: exit status %i, and one line where it is too old", (version, status, stderr) => {
    const file = new URL("../../../../infra/cli/node-version.cjs", import.meta.url).pathname;
    const pretend = `Object.defineProperty(process, "versions", { value: { node: "${version.slice(1)}" } })`;
    const words = ["-e", `${pretend}; require(${JSON.stringify(file)})`];
    const ran = spawnSync(process.execPath, words, { encoding: "utf8" });
    expect(ran).toMatchObject({ status, stderr: expect.stringMatching(stderr) });
  });

  test.each([
    ["audit", 7],
    ["logs guard --follow", 0],
    ["status --watch", 1],
  ])("%s ends with %i and no message where the reader of its output leaves early", (words, status) => {
    hosts.program("early/ssh", "echo pushgate: begin; exec yes 'j {}'");
    const real = hosts.at("bin/pulumi");
    hosts.program("early/pulumi", `[ "$1" = preview ] || exec ${real} "$@"; yes | head -n 99999 && exit 7`);
    const line = `env -i PATH="${hosts.at("early")}:$PATH" node infra/cli/pushgate.cjs ${words} | grep -q .`;
    const ran = spawnSync("bash", ["--norc", "-o", "pipefail", "-c", line], { encoding: "utf8", timeout: 60_000 });
    expect(ran).toMatchObject({ status, stderr: "" });
  });

  test("an option that npm kept stops the command, with the line to type", () => {
    const line = "npx pushgate rollback site";
    const kept = (env: Record<string, string>) => () => keptByNpm(["host", "stack"], line, env);
    expect(kept({ npm_config_host: "web1" })).toThrow(
      "npm kept options for itself. Type: npx pushgate rollback site --host=web1",
    );
    // `--host web1`, which npm takes for a switch.
    expect(kept({ npm_config_host: "true" })).toThrow("Type: npx pushgate rollback site --host=<value>");
    expect(kept({ npm_config_yes: "true" })).not.toThrow();
  });
});
