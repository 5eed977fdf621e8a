/** preflight for a probe's answer of each kind: faults that stop an up, and warnings. */
import { spawnSync } from "node:child_process";
import { beforeEach, describe, expect, test } from "vitest";
import type { HostReport, SeenFact, SeenLayer } from "../../../infra/apply/report.ts";
import { sourceSets } from "../../../infra/config/derived.ts";
import { units } from "../../../infra/host/paths.ts";
import { fitFaults, preflight, questionsOf } from "../../../infra/host/preflight.ts";
import { scheduleQuestion } from "../../../infra/host/site/site.ts";
import { example, exampleHost, rebuilt } from "../../fixtures.ts";
import { ShellHost } from "../apply/shell-host.ts";
import { missing } from "./namespace.ts";

const yes = (output: string): SeenFact => ({ output, status: 0 });
const no: SeenFact = { output: "", status: 1 };
const notInstalled: SeenFact = { output: "sh: 1: not found", status: 127 };

/** As a bare Debian 12 with the packages in place answers. */
const good = {
  os: yes("debian 12"),
  uid: yes("0"),
  pid1: yes("systemd"),
  apt: yes("/usr/bin/apt-get"),
  systemd: yes("systemd 252 (252.39-1~deb12u2)"),
  nft: yes("nftables v1.0.6 (Lester Gooch #5)"),
  nginx: yes("nginx version: nginx/1.22.1"),
  nodejs: yes("v18.20.4"),
  free: yes(
    "/dev/vda1 10000000 1000 9000000 1% /\n/dev/vda1 10000000 1000 9000000 1% /\n/dev/vda2 10000000 1000 9000000 1% /var",
  ),
  ipv6: yes("3"),
  iprule: yes("usable"),
  nftables: yes("usable"),
  cgroup: yes("cgroup2fs"),
  controllers: yes("cpuset cpu io memory hugetlb pids rdma misc"),
  bpf: yes("enforced"),
  dnat: yes(""),
} as const;

const layer = (name: string, outputs: readonly string[]): SeenLayer => ({
  ...{ name, applied: [], files: {}, owned: [] },
  facts: outputs.map(yes),
});
/** Of the example's sites and of `rebuilt`'s. */
const questionsAnswered: Readonly<Record<string, SeenLayer>> = {
  request: layer("request", ["a request"]),
  folders: layer("folders", ["fit", "fit", "fit"]),
  schedules: layer("schedules", ["Tue 2026-11-24 06:00:00 UTC"]),
};

const report = (
  answers: Partial<Record<keyof typeof good, SeenFact>> = {},
  more: Partial<HostReport> = {},
): HostReport => ({
  system: { ...good, ...answers },
  listeners: [
    { port: 22, process: "sshd", unit: "ssh.service" },
    { port: 443, process: "nginx", unit: "nginx.service" },
  ],
  sshPort: 22,
  ...more,
  layers: { ...questionsAnswered, ...more.layers },
});

const host = exampleHost;
const { address6: _, ...withoutIpv6 } = host;
const port = host.originPort;
const check = (answers?: Parameters<typeof report>[0], more?: Partial<HostReport>, change: Partial<typeof host> = {}) =>
  preflight({ ...host, ...change }, report(answers, more), example);

const listening = (port: number, process: string, unit = "") => ({ listeners: [{ port, process, unit }] });
const receiverPort = sourceSets(example)[0]!.port;
const ownSocket = "pushgate-receiver-github.socket";
test("a fit host has neither faults nor warnings", () => {
  expect(check()).toEqual({ faults: [], warnings: [] });
});

describe("a fault quotes what was found and says what to do", () => {
  const faults: [string, () => ReturnType<typeof check>, RegExp][] = [
    [
      "no root",
      () => check({ uid: yes("1000") }, {}, { sudo: false }),
      /is not root\. Log in as root, or set `sudo: true`/,
    ],
    [
      "sudo to another account",
      () => check({ uid: yes("1000") }, {}, { sudo: true }),
      /sudo does not make .* root\. Allow that login `NOPASSWD: ALL` in \/etc\/sudoers\.d\.$/,
    ],
    ["no systemd", () => check({ pid1: yes("sh") }), /^process 1 is sh; pushgate needs systemd/],
    [
      "an old systemd",
      () => check({ systemd: yes("systemd 247 (247.3-7)") }),
      /systemd 247 found; pushgate needs 252 or later/,
    ],
    [
      "a systemd without a number",
      () => check({ systemd: yes("") }),
      /systemd of an unknown version found; pushgate needs/,
    ],
    [
      "no apt",
      () => check({ apt: no, os: yes("fedora 41") }),
      /^fedora 41 has no apt-get\. Use Debian 12 or later, or another distribution with apt\.$/,
    ],
    ["no apt and no name", () => check({ apt: no, os: no }), /^an unknown distribution has no apt-get/],
    [
      "an old nft",
      () => check({ nft: yes("nftables v0.9.8 (E.D.S.)") }),
      /nftables 0.9.8 found; pushgate needs 1.0.6 or later/,
    ],
    [
      "an old nginx",
      () => check({ nginx: yes("nginx version: nginx/1.18.0 (Ubuntu)") }),
      /nginx 1.18.0 found; pushgate needs 1.22/,
    ],
    [
      "another nginx",
      () => check({ nginx: yes("nginx version: openresty/1.27.1") }),
      /^nginx of an unknown version found; pushgate needs 1\.22 or later\. Install the distribution's package, /,
    ],
    [
      "an old node",
      () => check({ nodejs: yes("v16.20.2") }),
      /^nodejs 16\.20\.2 found; pushgate needs 18 or later\. Install the distribution's package, of Debian 12 or later\.$/,
    ],
    [
      "no cgroup v2",
      () => check({ cgroup: yes("tmpfs"), bpf: yes("unknown") }),
      /^no unified cgroup hierarchy found, so the receiver's .* admit every source\. Boot with .*; in a container allow /,
    ],
    [
      "no BPF",
      () => check({ bpf: yes("absent") }),
      /cannot enforce a packet filter .*silently admit every source.*virtual machine/,
    ],
    [
      "nft not permitted",
      () => check({ nftables: no }),
      /^nft is not permitted by this kernel or container \(exit 1\)\. Grant CAP_NET_ADMIN, or use a virtual machine\.$/,
    ],
    ["ip rule not permitted", () => check({ iprule: no }), /ip rule is not permitted by this kernel or container/],
    ["the port is SSH's", () => check({}, { sshPort: port }), /the origin port \d+ is the SSH port.*lock you out/],
    ["the port is SSH's, through sudo", () => check({}, listening(port, "sshd")), /is the SSH port/],
    [
      "the port is taken",
      () => check({}, listening(port, "java")),
      /origin port \d+ is in use by java\. Set `originPort`/,
    ],
    [
      "the port is taken by a container",
      () => check({}, listening(port, "docker-proxy")),
      /is in use by docker-proxy\. Set/,
    ],
    [
      "the port is taken by a container without a proxy",
      () => check({ dnat: yes(`80\n${port}`) }),
      /a container publishes the origin port/,
    ],
    [
      "the port is taken by another nginx",
      () => check({}, listening(port, "nginx", "nginx.service")),
      /by nginx\. Set/,
    ],
    ["the port is taken by the kernel", () => check({}, listening(port, "")), /by a process without a name/],
    ["the port is taken beside pushgate's own files", () => check({}, listening(port, "caddy")), /by caddy/],
    [
      "the receiver's port is taken, and the kernel names no process",
      () => check({}, listening(receiverPort, "")),
      /is in use by another process\. Move that process\.$/,
    ],
    [
      "the receiver's port is taken",
      () => check({}, listening(receiverPort, "mongod")),
      /port \d+, the receiver's for \w+, is in use by mongod/,
    ],
    [
      "the port is taken by two programs",
      () => check({}, { listeners: ["java", "caddy", "java"].map((process) => ({ port, process, unit: "" })) }),
      /is in use by java, caddy\. Set/,
    ],
    ...["my-pushgate-receiver-github.socket", "pushgate-receiver-github.socket.service"].map(
      (unit): [string, () => ReturnType<typeof check>, RegExp] => [
        `the receiver's port is taken by ${unit}`,
        () => check({}, listening(receiverPort, "node", unit)),
        /the receiver's for \w+, is in use by node/,
      ],
    ),
    [
      "the receiver's port is taken by another program in Node",
      () => check({}, listening(receiverPort, "node", "blog.service")),
      /port \d+, the receiver's for \w+, is in use by node/,
    ],
    [
      "a full disk",
      () => check({ free: yes("x 1 1 900000 1% /\nx 1 1 900000 1% /\nx   1 1   10240 1% /var") }),
      /\/var has 10 MiB free; pushgate needs 50/,
    ],
    [
      "a full /etc",
      () => check({ free: yes("x 1 1 900000 1% /\nx 1 1 10240 1% /etc\nx 1 1 900000 1% /var") }),
      /^\/etc has 10 MiB free; pushgate needs 50/,
    ],
    [
      "no room to install",
      () => check({ nginx: notInstalled, free: yes("x 1 1 102400 1% /") }),
      /\/ has 100 MiB free; pushgate needs 400/,
    ],
  ];
  test.each(faults)("preflight reports %s", (_, look, says) => {
    const { faults } = look();
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(says);
  });
});

describe("no fault", () => {
  test.each([
    ...[units.nginxSocket, units.nginx].map((unit): [string, () => ReturnType<typeof check>] => [
      `the origin port is ${unit}'s`,
      () => check({}, listening(port, "systemd", unit)),
    ]),
    // "?node": a receiver that systemd has not executed yet.
    ...["systemd", "node", "MainThread", "?node"].flatMap((holder): [string, () => ReturnType<typeof check>][] => [
      [`pushgate's own socket, held by ${holder}`, () => check({}, listening(receiverPort, holder, ownSocket))],
      [
        `the same, and a person has stopped the socket, held by ${holder}`,
        () => check({}, listening(receiverPort, holder)),
      ],
    ]),
    ["a tool that the probe did not try", () => check({ iprule: undefined as never })],
    [
      "newer versions",
      () =>
        check({
          os: yes("debian 13"),
          systemd: yes("systemd 257 (257.13)"),
          nft: yes("nftables v1.1.3"),
          nginx: yes("nginx version: nginx/1.26.3"),
          nodejs: yes("v20.19.2"),
        }),
    ],
    ["a version whose last number has more digits", () => check({ nft: yes("nftables v1.0.10") })],
    [
      "disks with just enough room, of which /etc needs none for packages",
      () =>
        check({
          nginx: notInstalled,
          free: yes("x 1 1 409600 1% /\nx 1 1 51200 1% /etc\nx 1 1 409600 1% /var"),
        }),
    ],
    ["packages still to come", () => check({ nft: notInstalled, nftables: notInstalled })],
  ])("preflight accepts %s", (_, look) => {
    expect(look()).toEqual({ faults: [], warnings: [] });
  });
});

describe("no fault, but a warning", () => {
  test.each([
    [
      "an untested distribution",
      () => check({ os: yes("ubuntu 24.04") }),
      /^ubuntu 24\.04 is not among the tested distributions \(debian 12, debian 13\)\.$/,
    ],
    ["enforcement that could not be seen", () => check({ bpf: notInstalled }), /The guard proves it/],
    [
      "no IPv6",
      () => check({ ipv6: no }, {}, { address6: "2001:db8::10" }),
      /^no IPv6 on this host: .* is answered 503\. Leave `address6` \(2001:db8::10\) out, or /,
    ],
    [
      "no IPv6 that is declared",
      () => preflight(withoutIpv6, report({ ipv6: no }), example),
      /^no IPv6 on this host: a push .* is answered 503\. Set net\.ipv6/,
    ],
  ])("preflight only warns of %s", (_, look, says) => {
    const { faults, warnings } = look();
    expect(faults).toEqual([]);
    expect(warnings.join()).toMatch(says);
  });
});

test("preflight reports each folder of a site that is not fit, at once, with its key and what to do", () => {
  const judged = (...outputs: string[]) =>
    preflight(host, report({}, { layers: { folders: layer("folders", outputs) } }), rebuilt);
  expect(judged("fit", "fit", "fit")).toEqual({ faults: [], warnings: [] });
  expect(judged("a folder. Run mv.", "fit", "missing. Make it.")).toEqual({
    faults: [
      "hooks[0].site.webRoot is /var/www/site, a folder. Run mv.",
      "hooks[1].site.content is /home/docs/content, missing. Make it.",
    ],
    warnings: [],
  });
});

describe("the schedule of a site", () => {
  const judged = (output: string) =>
    preflight(host, report({}, { layers: { schedules: layer("schedules", [output]) } }), rebuilt).faults;

  test.each([
    ["Tue 2026-11-24 06:00:00 UTC", []],
    ["", [expect.stringMatching(/^systemd cannot read the schedule "Mon\.\.Fri 06:00"\. Use an expression/)]],
    ["never", [expect.stringMatching(/^the schedule "Mon\.\.Fri 06:00" never comes again\. Use an expression/)]],
  ])("preflight judges what systemd says of it: %j", (output, faults) => {
    expect(judged(output)).toEqual(faults);
  });

  const tool = missing("systemd-analyze");
  beforeEach(({ skip, task }) => skip(tool !== undefined && task.name.startsWith("systemd says"), tool));
  test.each([
    ["Mon..Fri 06:00", /^(Mon|Tue|Wed|Thu|Fri) \d{4}-/],
    ["2020-01-01", /^never$/],
    ["*-*-* 25:00", /^$/],
    ["06:00 Europe/Nowhere", /^$/],
    ["'; touch /pwned", /^$/],
  ])("systemd says of %s what preflight reads", (schedule, says) => {
    const docs = rebuilt.hooks[1]!;
    const hooks = [{ ...docs, site: { ...docs.site!, schedule } }];
    const [fact] = scheduleQuestion({ ...rebuilt, hooks }).facts;
    expect(spawnSync("sh", ["-c", fact!.read], { encoding: "utf8" }).stdout.trim()).toMatch(says);
  });
});

describe("the cgroup controllers of a build's limits", () => {
  const judged = (controllers: SeenFact, settings = rebuilt) => preflight(host, report({ controllers }), settings);
  const limits = (controllers: SeenFact) => judged(controllers).warnings;

  test("preflight warns of none if all exist, if no hook has a site, or if the probe could not read them", () => {
    expect(limits(good.controllers)).toEqual([]);
    expect(judged(yes("hugetlb"), example).warnings).toEqual([]);
    expect(limits(no)).toEqual([]);
  });
  test("preflight warns once for all sites of a kernel without the memory controller, with the effect and what to do", () => {
    expect(judged(yes("cpuset cpu io pids"))).toEqual({
      faults: [],
      warnings: [
        "this kernel or container has no cgroup controller for memory, so of `site.limits` `memoryMiB` applies to each " +
          "process of the generator alone. In a container let its host delegate memory. On a Raspberry Pi boot with " +
          "cgroup_enable=memory.",
      ],
    });
  });
  test("preflight speaks of a Raspberry Pi only where memory is not counted", () => {
    expect(limits(yes("cpuset cpu io memory"))).toEqual([
      "this kernel or container has no cgroup controller for pids, so of `site.limits` `tasks` applies to the generator and not to " +
        "git. In a container let its host delegate pids.",
    ]);
  });
  test("preflight warns of a container without controllers", () => {
    for (const none of ["", "hugetlb"]) {
      const [text, ...more] = limits(yes(none));
      expect(more).toEqual([]);
      expect(text).toMatch(
        /no cgroup controller for memory, pids, cpu,.* alone; `tasks` applies to the generator and not to git; `cpuPercent` has no effect/,
      );
    }
  });
});

test("preflight reports all faults at once", () => {
  const { faults } = check({ nodejs: yes("v12.0.0"), bpf: yes("absent"), nftables: no }, listening(port, "java"));
  expect(faults).toHaveLength(4);
});

test("an absent host needs only root and systemd", () => {
  const found = check({ nodejs: yes("v12.0.0"), bpf: yes("absent") }, listening(port, "java"), { state: "absent" });
  expect(found.faults).toEqual([]);
});

test("without root, and on a host that is only cleaned, the other answers mean nothing", () => {
  const other = { apt: no, os: yes("fedora 41") };
  expect(check({ ...other, uid: yes("1000") }, {}, { sudo: false })).toEqual({
    faults: [expect.stringContaining("is not root")],
    warnings: [],
  });
  expect(check(other, {}, { state: "absent" })).toEqual({ faults: [], warnings: [] });
});

test("fitFaults joins the faults of a host under its name, and puts the name before each warning", () => {
  const { faults } = fitFaults(
    { ...host, name: "web1", sudo: false },
    { system: {}, listeners: [], layers: {} },
    example,
  );
  expect(faults.join()).toMatch(
    /^web1 cannot carry pushgate, nothing was changed:\n {2}.*is not root.* and no password\.\n {2}process 1 is unknown; /,
  );
  const { warnings } = fitFaults({ ...host, name: "web1" }, report({ os: yes("ubuntu 24.04") }), example);
  expect(warnings).toEqual([expect.stringMatching(/^web1: ubuntu 24\.04 is not among the tested/)]);
  expect(fitFaults(host, report(), example)).toEqual({ faults: [], warnings: [] });
});

describe("questions without an answer", () => {
  const unanswered = (seen: HostReport) =>
    preflight(host, seen, rebuilt).faults.filter((text) => /no answer/.test(text));

  test("a host answers each question of preflight", () => {
    using shell = new ShellHost();
    const { layers } = shell.report(questionsOf(host, rebuilt));
    expect(unanswered(report({}, { layers }))).toEqual([]);
  });

  test("preflight names what was not answered, and what to do", () => {
    const { dnat: _, ...system } = good;
    const layers = { request: layer("request", []), schedules: layer("schedules", []) };
    expect(unanswered(report({}, { system, layers }))).toEqual([
      "versions and resources, certificate request, Mon..Fri 06:00: no answer: the shell that reads this layer's facts " +
        "ended early, or took 15 seconds. Run the command again when this host is less busy.",
    ]);
  });

  test.each<[string, HostReport["layers"]]>([
    ["no layer", {}],
    ["no fact", Object.fromEntries(["folders", "schedules"].map((name) => [name, layer(name, [])]))],
  ])("preflight of a host that answers for %s ends with that fault", (_, layers) => {
    const { controllers: __, ...system } = good;
    const { faults } = preflight(host, { ...report(), system, layers }, rebuilt);
    expect(faults).toEqual([expect.stringMatching(/Mon\.\.Fri 06:00: no answer: /)]);
  });
});
