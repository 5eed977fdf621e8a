/** `npx pushgate` with fake hosts that run the real shell. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import { version } from "../../../infra/apply/version.ts";
import { duration, size } from "../../../infra/cli/format.ts";
import { requestScript } from "../../../infra/cli/site/build.ts";
import { parseReport, reportScript, type Status } from "../../../infra/cli/site/host-report.ts";
import { chosen } from "../../../infra/cli/site/rollback.ts";
import { builds, ends, Hosts, hookOf, hostOf, releases, status } from "./hosts.ts";

const hosts = new Hosts();
const web1 = hostOf("web1");
const web2 = { ...hostOf("web2"), ssh: "admin@web2", sudo: true };
const built = hookOf({ site: { webRoot: "/var/www/site", content: "/srv/content/site" } });

beforeEach(() => {
  hosts.configure([web1, web2], [built]);
  for (const host of ["web1", "web2"]) hosts.add(host);
});

describe("status", () => {
  test("status prints the published release and the last result of each host, and that there are no faults", async () => {
    const { deployed, last } = status();
    const warned = { deployed: { ...deployed!, warnings: ["R", "both"] }, last: { ...last, warnings: ["both", "L"] } };
    hosts.add("web1", { statusJson: status(warned) });
    const head = "d".repeat(40);
    const held = status({ head, held: head, last: { ...last, reason: "\u001b[2Jgone" } });
    const units = { "pushgate-build@site.service": "loaded inactive dead success static" };
    hosts.add("web2", { statusJson: held, units });
    hosts.write("web2/var/spool/pushgate/site/1.json", "{}");
    const ignored = { hook: "site", status: 200, reason: "ignored: event System Hook is not a push.\u001b" };
    hosts.log("web2", undefined, ignored, Date.now() - 120_000);
    hosts.write("web2/var/lib/pushgate-sites/site/work/taken", "delivery 2\n");
    hosts.write("web1/var/lib/pushgate/stamps/egress", "absent-0.9.0-0123456789ab\n");
    hosts.write("web1/var/lib/pushgate/stamps/forged", "9.9.9 \u001b[31m\n");
    const { code, stdout, stderr } = await hosts.run("status");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(new RegExp(`^pushgate ${version}\n\nweb1 `));
    const [, first = "", second = ""] = stdout.split(/^web\d /m);
    expect(first).toContain("\n  applied by pushgate 0.9.0, pushgate 0.10.0\n");
    expect(first).toMatch(/guard: proven\n {2}pushgate-nginx\.socket active \(running\)/);
    expect(first).toMatch(/site {2}https:\/\/github\.com\/example\/site\.git main/);
    expect(first).toMatch(/published +000003-cccccccccccc, /);
    expect(first).toMatch(/head +cccccccccccc, as published/);
    expect(first).toMatch(/last +published, .* in 1\.8 s: 3 pages changed/);
    expect(first).toMatch(/\n +warning +R\n +warning +both\n +warning +L\n +releases /);
    expect(first).toMatch(/releases +000003-cccccccccccc {2}\S+ {2}30 pages, 14\.3 MiB {2}<- current/);
    expect(first).toMatch(/building +begun \d+ \w+ ago \(20.*\n +pending +nothing/);
    expect(second).toMatch(/head +dddddddddddd, held back by a rollback\n +last .*: \?\[2Jgone\n/);
    expect(second).not.toMatch(/building|\u001b/);
    expect(second).toMatch(/delivery +200, 2 min ago \(20.*Z\): ignored: event System Hook is not a push\.\?\n/);
    expect(second).toMatch(/pending +1 delivery, 1 taken and not published yet/);
    expect(stdout).toMatch(/No faults\.\n$/);
    expect(hosts.read("web2/ssh.log")).toBe(
      'exec env LC_ALL=C sudo -n env SSH_CONNECTION="$SSH_CONNECTION" timeout 30 sh -s\n',
    );
    expect(hosts.read("pulumi.log")).not.toContain("show-secrets");
  });

  test("status --json prints the same for a program, with the faults as a list and in the exit status", async () => {
    const failing = { since: "2026-11-23T10:00:00Z", attempts: 4, next: "2026-11-23T10:02:00Z" };
    const last = { ...status().last, result: "failed", reason: "hugo: error calling partial" };
    const units = { "pushgate-build@site.path": "loaded failed failed trigger-limit-hit enabled" };
    hosts.add("web1", { statusJson: status({ failing, last }), units });
    hosts.write("web2/run/pushgate-guard/verdict", "closed: the kernel does not enforce it");
    const { code, stdout } = await hosts.run("status", "--json", "--stack", "prod");
    const { hosts: reports, faults, ...more } = JSON.parse(stdout);
    expect([more, reports[0].versions]).toEqual([{ version }, ["0.10.0"]]);
    expect(code).toBe(1);
    expect(faults).toEqual([
      "web1: site has been failing since 2026-11-23T10:00:00Z: hugo: error calling partial",
      "web1: pushgate-build@site.path failed (trigger-limit-hit)",
      "web2: guard: closed: the kernel does not enforce it",
    ]);
    const pending = { deliveries: 0, requests: 0, taken: 0 };
    expect(reports[0].hooks[0]).toMatchObject({ name: "site", status: { failing }, pending });
    expect(hosts.read("pulumi.log")).toMatch(/config --json --stack prod\n$/);
  });

  test("status names an unreachable host with what to do, and prints the others", async () => {
    const lost = { ...hostOf("web3"), state: "lost" };
    hosts.configure([{ ...web1, ssh: "root@gone" }, web2, lost], [hookOf({ name: "docs" }), built]);
    hosts.add("web2", { statusJson: null });
    hosts.write("web2/var/spool/pushgate/docs/1.json", "{}");
    const { code, stdout } = await hosts.run("status");
    expect(code).toBe(1);
    expect(stdout).toMatch(/web1: its name does not resolve; .* Check with: ssh root@gone/);
    expect(stdout).toMatch(/web2 \(admin@web2\)\n {2}applied by pushgate 0.10.0\n {2}guard: proven/);
    expect(stdout).toMatch(/pending +1 delivery; no site, so nothing builds/);
    expect(stdout).toMatch(/published +nothing yet: no build has ended/);
    expect(stdout).toMatch(/web3 .*\n {2}is declared lost, so it was not queried/);
    expect(stdout).not.toMatch(/Faults:[\s\S]*web3/);
  });

  test("status prints one line for faults of the stack's configuration", async () => {
    hosts.configure([{ name: "web1" }], []);
    const line =
      "pushgate: the stack's configuration has faults. Run npx pulumi preview, which lists each with its fix.\n";
    expect(await hosts.run("status")).toEqual({ code: 1, stdout: "", stderr: line });
  });
});

describe("rollback", () => {
  const [, before, oldest] = releases.map(({ id }) => id) as [string, string, string];
  // A command waits for the status that names its request.
  const rolled = { result: "rolled back", reason: "it is published", trigger: [`rollback-${before}`] };
  const good = { builder: builds(rolled) };
  beforeEach(() => {
    for (const host of ["web1", "web2"]) hosts.add(host, good);
  });
  const restarted = () => ["web1", "web2"].filter((host) => existsSync(hosts.at(`${host}/restarted`)));

  test("rollback goes to the release before the current one, on every host, and prints the result", async () => {
    const { code, stdout, stderr } = await hosts.run("rollback", "site", "--yes");
    expect([code, stderr]).toEqual([0, ""]);
    const lines = ["web1: rolled back: it is published", "web2: rolled back: it is published"];
    expect(stdout.trim().split("\n").sort()).toEqual(lines);
    for (const host of ["web1", "web2"]) {
      expect(hosts.read(`${host}/restarted`)).toBe("pushgate-build@site.service\n");
      expect(readdirSync(hosts.at(`${host}/var/spool/pushgate-root`))).toEqual(["site"]);
    }
  });

  test("rollback reports that the status does not show its result", async () => {
    hosts.add("web1", { builder: 'rm "$root/var/spool/pushgate-root/site/$request"' });
    expect((await hosts.run("rollback", "site", "--host", "web1")).stderr).toBe(
      "pushgate: web1: the builder has ended the request, and its status does not show the result. Run npx pushgate status.\n",
    );
  });

  test("rollback prints the hosts that did it although another one did not", async () => {
    rmSync(hosts.at("web2/var/spool/pushgate-root/site"), { recursive: true });
    const { code, stdout, stderr } = await hosts.run("rollback", "site", "--yes");
    expect([code, stdout]).toEqual([1, "web1: rolled back: it is published\n"]);
    expect(stderr).toMatch(/^pushgate: web2: site has no builder on this host\./);
  });

  test("a command waits for its own run where the hook is called like the request", async () => {
    const script = requestScript("build", { file: "build", seconds: 1, verb: "start" });
    const pattern = /^named\(\) \{ (.*) "\$status"; \}$/m.exec(script)![1]!;
    const isNamed = (trigger: string[]) => {
      const input = JSON.stringify({ hook: "build", last: { trigger, milliseconds: { build: 1 } } }, null, 2);
      return spawnSync("sh", ["-c", `request=build; ${pattern}`], { input }).status === 0;
    };
    const triggers = [["tick"], ["build", "tick"], ["tick", "request of root (build)"]];
    expect(triggers.map(isNamed)).toEqual([false, true, true]);
  });

  test("rollback changes no host and lists the releases if one host lacks the release", async () => {
    hosts.add("web1", { ...good, statusJson: status({ releases: releases.slice(0, 2) }) });
    const { code, stdout, stderr } = await hosts.run("rollback", "site", oldest, "--yes");
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^pushgate: web1: there is no release "000001-a+"\. Existing releases:\n {4}000003-c+ {2}\d+ \w+ ago .*<- current\n {4}000002-b+ /,
    );
    expect(restarted()).toEqual([]);
  });

  test.each<[name: string, args: string[], line: RegExp]>([
    ["an unknown hook", ["docs"], /^pushgate: "docs" is no hook with a site\. Use one of: site\.\n$/],
    ["an unknown host", ["site", "--host", "web9"], /"web9" is no host that is present\. Use one of: web1, web2\.\n$/],
    ["several hosts without --yes", ["site"], /on web1 and web2\. Nothing was changed, .* Add --yes\.\n$/],
  ])("rollback rejects %s and names what exists", async (_, args, line) => {
    expect(await hosts.run("rollback", ...args)).toMatchObject(ends(1, "", line));
    expect(restarted()).toEqual([]);
  });
});

test.each<[what: string, wanted: string | undefined, change: Partial<Status>, found: string | RegExp]>([
  ["its name", releases[2]!.id, {}, releases[2]!.id],
  ["its commit", "aaaaaaa", {}, releases[2]!.id],
  ["too few letters of a commit", "aaa", {}, /there is no release "aaa"/],
  ["nothing, of one release", undefined, { releases: [releases[0]!] }, /no release before the current one is kept/],
  ["nothing, of none", undefined, { deployed: null, releases: [] }, /is kept\. Existing releases: none$/],
])("rollback chooses a release by %s, or rejects that", (_, wanted, change, found) => {
  const choose = () => chosen("web1", status(change), "2026-11-24T10:00:00Z", wanted);
  if (typeof found === "string") expect(choose()).toBe(found);
  else expect(choose).toThrow(found);
});

const answer = (statusJson: string) =>
  `pushgate 1 2026-11-24T10:00:00Z\nguard ${btoa("proven")}\nhook site 0 0 0\nstatus site ${btoa(statusJson)}\nend\n`;
const forged = status({ releases: [{ ...releases[1]!, id: "x; rm -rf /" }] });
test.each([
  ["a status.json with a release name that no builder makes", answer(JSON.stringify(forged)), "(releases.0.id)"],
  [
    "a status.json that is not a status",
    answer('{"hook":1}'),
    "web1: site: its status.json is not the builder's (hook)",
  ],
  ["a status.json that is not JSON", answer("half a fi"), "(no JSON)"],
  ["half an answer", answer("{}").slice(0, -5), "web1: its answer is incomplete"],
])("status rejects %s", (_, text, why) => {
  expect(() => parseReport("web1", text, [{ name: "site", site: {} }])).toThrow(why);
});

test("status looks at the timer of a schedule, where a site has one", () => {
  const looksAt = (site: object) => reportScript([{ name: "site", site }]).includes("pushgate-schedule@site.timer");
  expect([looksAt({ schedule: "daily" }), looksAt({})]).toEqual([true, false]);
});

test("format prints times and sizes in units that fit", () => {
  expect([340, 1_830, 45_000, 300_000, 3 * 3_600_000, 86_400_000, 12 * 86_400_000].map(duration)).toEqual([
    ...["340 ms", "1.8 s", "45 s", "5 min", "3 h", "1 day", "12 days"],
  ]);
  expect([0, 1023, 1536, 5 << 20, 3 * 2 ** 30].map(size)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
});
