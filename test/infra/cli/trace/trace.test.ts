/** `npx pushgate trace` on fake hosts: which lines it reads, what it prints, and its exit status. */
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { beforeEach, expect, test } from "vitest";
import { layersOf } from "../../../../infra/cli/trace/state.ts";
import { ends, Hosts, hookOf, hostOf as host, probeOf, stackOf } from "../hosts.ts";

const hosts = new Hosts();

const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const hook = hookOf({ site: { webRoot: "/var/www/site", content: "/srv/content/site" } });
const sent = "2026-11-23T09:59:58+00:00";

function logged(name: string, nginx: readonly object[], receiver: readonly object[] = []): void {
  const line = { time: sent, delivery: id, hook: "site", client: "192.0.2.1", in_ranges: "1", limit: "PASSED" };
  const entry = { delivery: id, hook: "site", source: "192.0.2.1" };
  for (const change of nginx) hosts.log(name, { ...line, ...change });
  for (const change of receiver) hosts.log(name, undefined, { ...entry, ...change }, Date.parse(sent));
}
const passed = { status: 202, up_status: "202", up_connect: "0.000" };

const stack = stackOf([host("web1"), host("web2")], [hook]);

beforeEach(() => {
  const room = "400000 60000 rw,relatime\n";
  for (const one of stack.hosts) {
    hosts.add(one.name);
    // All is as declared.
    const texts = { probe: probeOf(layersOf(stack, one)), findings: "1795428000\tproven\tproven\t\n" };
    for (const [what, text] of Object.entries({ ...texts, spool: room, logs: room }))
      hosts.write(`${one.name}/state/${what}`, text);
  }
  hosts.configure(["web1"], [hook]);
});

test("a delivery that met a closed socket: the path, the guard's fix, what was seen and what was not, by one connection a host", async () => {
  hosts.configure(["web1", "web2"], [hook]);
  logged("web2", [{ status: 503, up_status: "504", up_connect: "-" }]);
  const at = Date.parse(sent) / 1000;
  const closed = "slice\t-.slice admits 192.0.2.0/24\tsystemctl cat -- -.slice";
  hosts.write("web2/state/findings", `${at - 3_600}\t${closed}\n${at + 60}\tproven\tproven\t\n`);
  const answer = ["--status", "503", "--header", "x-served-by: pushgate-proxy"];
  const { code, stdout } = await hosts.run("trace", "--delivery", id, ...answer);
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
    certain: the source is inside of the ranges, and the receiver's socket did not accept the connection.
      likely, as web2 is now: 7 systemd: the guard: -.slice admits 192.0.2.0/24
      fix: systemctl cat -- -.slice
    seen:
      the git host's page     503 {"x-served-by":"pushgate-proxy"}
      Cloudflare's events     not looked at: it let the request pass: X-Served-By names the host
      nginx                   {"status":503,"up_status":"504","up_connect":"-","in_ranges":"1","limit":"PASSED","client":"192.0.2.1"}
      receiver                no line
      web2's guard now        proven, since 2026-11-23T10:00:58.000Z
                              -.slice admits 192.0.2.0/24; fix: systemctl cat -- -.slice, since 2026-11-23T08:59:58.000Z
      web2's layers now       as declared

    "
  `);
  expect([hosts.connections("web1"), hosts.connections("web2")]).toEqual([1, 1]);
});

test("a delivery that one host rejected and another accepted exits with 1", async () => {
  hosts.configure(["web1", "web2"], [hook]);
  logged("web1", [{ status: 403, up_status: "504", up_connect: "-", in_ranges: "0" }]);
  logged("web2", [passed], [{ status: 202, reason: "accepted" }]);
  expect(await hosts.run("trace", "--delivery", id)).toMatchObject(ends(1));
});

test("the credentials are no difference, as the secrets decide whether there is one for the commit's status", () => {
  const names = layersOf(stack, stack.hosts[0]!).flatMap(({ facts }) => facts.map(({ name }) => name));
  expect(names.join("\n")).toContain("pushgate-receiver.service runs what is installed");
  expect(names.filter((name) => /credential/.test(name))).toEqual([]);
});

test("a host that is unreachable is named as a cause of Cloudflare's 522, and takes certainty without lines", async () => {
  hosts.configure([host("web1"), host("gone")], [hook]);
  const gone =
    /likely, as gone is now: 5 firewall: ssh, too: gone: its name does not resolve.*\n {2}nginx +not looked at\n {2}receiver +not looked at/s;
  expect(await hosts.run("trace", "--delivery", id, "--status", "522")).toMatchObject(ends(1, gone));
  logged("web1", [passed], [{ status: 202, reason: "accepted" }]);
  expect(await hosts.run("trace", "--delivery", id)).toMatchObject(ends(0, /gone now +gone: its name does not/));
});

test.each([
  ["nginx's logs lie on a full disk", () => hosts.write("web1/state/logs", "0 60000 rw\n")],
  ["the journal is too long to be searched in time", () => hosts.program("web1/bin/journalctl", "exec sleep 30")],
])("a log counts as not looked at where %s", async (_, make) => {
  make();
  expect((await hosts.run("trace", "--delivery", id)).stdout).toMatch(/receiver +not looked at/);
});

test("the journal is searched around nginx's lines alone, and whole where nginx has none", async () => {
  const searches = async () => {
    hosts.write("web1/searches", "");
    hosts.program("web1/bin/journalctl", `echo "$*" >>${hosts.at("web1/searches")}`);
    await hosts.run("trace", "--delivery", id);
    return hosts.read("web1/searches").match(/ --since=.*?(?= --unit=pushgate-receiver\.service)/g);
  };
  expect(await searches()).toEqual([" --since=7 days ago"]);
  const at = Date.parse(sent) / 1000;
  const later = new Date((at + 3_600) * 1000).toISOString().replace(/\.\d+Z/, "+00:00");
  logged("web1", [passed, { ...passed, time: later }, passed]);
  const around = (line: number) => ` --since=@${line - 15} --until=@${line + 60}`;
  expect(await searches()).toEqual([around(at), around(at + 3_600)]);
});

test("a line is found in a rotated file, a compressed one, behind NULs, and before 1,500 lines that quote its id", async () => {
  const line = (status: number) =>
    `${JSON.stringify({ time: sent, delivery: id, hook: "site", client: "192.0.2.1", ...passed, status })}\n`;
  const quote = `${JSON.stringify({ delivery: "x", ray: `{"delivery":"${id}"}` })}\n`;
  const files = {
    "hooks.log": `{"time":"2026-11\0\0\0\n${line(200)}`,
    "hooks.log.1": line(201),
    "hooks.log.2": '{"time":"2026-',
    "hooks.log.3.gz": gzipSync(line(203)),
    "hooks.log.4": `${line(204)}${quote.repeat(1_500)}`,
  };
  for (const [name, text] of Object.entries(files))
    writeFileSync(hosts.at(`web1/var/log/pushgate-nginx/${name}`), text);
  const { stdout } = await hosts.run("trace", "--delivery", id, "--json");
  const found = JSON.parse(stdout) as { nginx: { status: number } }[];
  expect(found.map(({ nginx }) => nginx.status).sort()).toEqual([200, 201, 203, 204]);
});

test("each attempt has a verdict of its own with the receiver's reason, and the last one is the exit status", async () => {
  const ends = [
    { status: 401, reason: "X-Hub-Signature-256 is empty. Set the hook's secret at the git host." },
    { status: 200, reason: "ignored: event System Hook is not a push. Make it another." },
  ];
  const lines = ends.map(({ status }) => ({ ...passed, status, up_status: `${status}` }));
  logged("web1", lines, ends);
  const { code, stdout } = await hosts.run("trace", "--delivery", id, "--json");
  const one = (what: RegExp) => ({
    ...{ certainty: "certain", host: "web1", outcomes: [{ what: expect.stringMatching(what) }] },
  });
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject([
    one(/another secret: X-Hub-Signature-256 is empty\. Set the hook's secret at the git host$/),
    one(/as it is no push to the hook's branch: event System Hook is not a push\. Make it another$/),
  ]);
});

test.each([
  [["--status", "403", "--header", "CF-Mitigated: challenge"], 1, /3 bot management +probably rejected it/],
  [[], 3, /nginx +no line/],
])("without a line on any host %j exits with %i", async (words, code, text) => {
  expect(await hosts.run("trace", "--delivery", id, ...words)).toMatchObject(ends(code, text));
});

test("by a status alone no host is looked at", async () => {
  const seen = /4 Cloudflare to origin +rejected it[\s\S]*nginx +not looked at/;
  expect(await hosts.run("trace", "--status", "526")).toMatchObject(ends(1, seen));
  expect(() => hosts.connections("web1")).toThrow("ENOENT");
});
