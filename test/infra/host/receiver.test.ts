/** The receiver's units as systemd reads them, and what each line of them protects from. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { paths, receiverUser, units } from "../../../infra/host/paths.ts";
import {
  asSystemd,
  metricsGroup,
  receiverLayer,
  receiverSettings,
  serviceUnit,
  slice,
  spoolGroup,
} from "../../../infra/host/receiver/receiver.ts";
import { mark } from "../../../infra/host/routing/routing.ts";
import { loopback } from "../../../infra/networks.ts";
import { metricsName, readReceiver } from "../../../service/receiver/settings.ts";
import { example, served } from "../../fixtures.ts";
import { noHost, onHost } from "./lab/throwaway-host.ts";
import { missing } from "./namespace.ts";

const layer = receiverLayer(example);
const sets = sourceSets(example);
const text = (path: string) => layer.files.find((file) => file.path === path)!.text;
const socketOf = (name: string) => text(`${paths.units}/${units.socket(name)}`);
const values = (unit: string, key: string) =>
  unit
    .split("\n")
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));

describe("one socket a source set", () => {
  test.each(sets.map((set) => [set.name, set] as const))("%s admits its own ranges and no other", (name, set) => {
    const unit = socketOf(name);
    expect(values(unit, "IPAddressAllow")).toEqual([...set.cidrs]);
    expect(values(unit, "IPAddressDeny")).toEqual(["any"]);
    expect(values(unit, "ListenStream")).toEqual([`${loopback.v4}:${set.port}`, `[${loopback.v6}]:${set.port}`]);
    expect(values(unit, "Mark").map(Number)).toEqual([mark]);
    expect(values(unit, "Slice")).toEqual([slice]);
    expect(values(unit, "FreeBind")).toEqual(["yes"]);
  });

  test("no list names the host itself: an nginx without its transparent bind is rejected", () => {
    for (const { text } of layer.files) expect(text).not.toMatch(/IPAddressAllow=.*(localhost|127\.|::1\b)/);
  });

  test("the slice is top level and carries no list", () => {
    expect(slice).not.toContain("-");
    expect(values(text(`${paths.units}/${slice}`), "IPAddressAllow")).toEqual([]);
  });

  test("ranges are compared as systemd prints them", () => {
    expect(["2001:0DB8:0:0::/48", "198.51.100.7", "2001:db8::1"].map(asSystemd)).toEqual([
      "2001:db8::/48",
      "198.51.100.7/32",
      "2001:db8::1/128",
    ]);
  });

  test("a list too long for a fact is compared by its hash", () => {
    const sources = Array.from({ length: 200 }, (_, i) => `198.51.100.${i}`);
    const [site] = example.hooks;
    const long = receiverLayer({ ...example, hooks: [{ ...site!, sources }] });
    const fact = long.facts.find(({ name }) => name.endsWith(" admits"))!;
    expect(fact.want).toMatch(/^[0-9a-f]{64}$/);
    expect(fact.read).toMatch(/ \| hashed$/);
  });
});

describe("the socket for metrics", () => {
  const unit = text(`${paths.units}/${units.metricsSocket}`);

  test("admits root and a group without members, and no address", () => {
    expect(values(unit, "ListenStream")).toEqual([paths.metrics]);
    expect([values(unit, "SocketMode"), values(unit, "SocketGroup")]).toEqual([["0660"], [metricsGroup]]);
    expect(text(paths.sysusers)).toContain(`g ${metricsGroup} - -\n`);
    expect(text(paths.sysusers)).not.toMatch(new RegExp(`^m .*${metricsGroup}`, "m"));
  });

  test("has a name that no socket for deliveries has, and stops with each of these", () => {
    expect(values(unit, "FileDescriptorName")).toEqual([metricsName]);
    for (const { name } of sets) expect(values(socketOf(name), "FileDescriptorName")).toEqual([]);
    expect(values(unit, "PartOf")).toEqual([sets.map(({ name }) => units.socket(name)).join(" ")]);
  });
});

describe("the service", () => {
  const service = text(`${paths.units}/${units.receiver}`);

  test("inherits every socket and every hook's credential", () => {
    const deliveries = sets.map(({ name }) => units.socket(name));
    expect(values(service, "Sockets")).toEqual([...deliveries, units.metricsSocket]);
    expect(values(service, "LoadCredentialEncrypted")).toEqual(
      example.hooks.map(({ name }) => `${name}:${paths.credentials}/${name}`),
    );
  });

  test("has room for the bodies it may hold", () => {
    const memory = (bodyBytes: number) =>
      Number.parseInt(
        values(serviceUnit({ ...example, limits: { ...example.limits, bodyBytes } }).text, "MemoryMax")[0]!,
        10,
      );
    expect(memory(5 << 20)).toBe(192 + 160);
    expect(memory(25 << 20)).toBe(192 + 800);
    expect(memory(1 << 10)).toBe(192 + 128);
  });

  test("its settings are what the receiver reads", () => {
    const folder = mkdtempSync(join(tmpdir(), "pushgate-units-"));
    try {
      writeFileSync(join(folder, "receiver.json"), text(paths.receiverSettings));
      for (const { name } of example.hooks) writeFileSync(join(folder, name), `${"s".repeat(40)}\n`);
      const env = {
        PUSHGATE_SETTINGS: join(folder, "receiver.json"),
        CREDENTIALS_DIRECTORY: folder,
        LISTEN_PID: "7",
        LISTEN_FDS: "3",
        // systemd's names: of a socket without FileDescriptorName= its unit's.
        LISTEN_FDNAMES: [...sets.map(({ name }) => units.socket(name)), metricsName].join(":"),
      };
      const read = readReceiver(env, 7);
      expect(read.settings).toEqual(receiverSettings(example));
      expect([read.sockets, read.metrics]).toEqual([[3, 4], [5]]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("read by the real parsers", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "pushgate-units-"));
    for (const file of layer.files) writeFileSync(join(folder, basename(file.path)), file.text);
    // A computer that only renders may have node elsewhere, which is no fault of the unit.
    if (!existsSync("/usr/bin/node")) {
      const service = join(folder, units.receiver);
      writeFileSync(service, readFileSync(service, "utf8").replace("/usr/bin/node", process.execPath));
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const analyze = (...args: string[]) => spawnSync("systemd-analyze", args, { encoding: "utf8" });
  const tool = missing("systemd-analyze");

  test("systemd-analyze verify reports nothing", ({ skip }) => {
    skip(tool !== undefined, tool);
    const names = layer.files
      .map(({ path }) => basename(path))
      .filter((name) => /\.(socket|service|slice)$/.test(name));
    const run = analyze("verify", ...names.map((name) => join(folder, name)));
    // Not status: a directive systemd does not know is only a warning.
    expect(run.stderr).toBe("");
    expect(run.status).toBe(0);
  });

  test("systemd-analyze verify reports an unknown directive", ({ skip }) => {
    skip(tool !== undefined, tool);
    const file = join(mkdtempSync(join(folder, "x-")), "pushgate-receiver-x.socket");
    writeFileSync(file, socketOf(sets[0]!.name).replace("FreeBind", "FreeeBind"));
    expect(analyze("verify", file).stderr).toContain("FreeeBind");
  });

  test("exposure is at most 0.2, and each of these lines counts", ({ skip }) => {
    skip(tool !== undefined, tool);
    const score = (unit: string) => {
      const file = join(mkdtempSync(join(folder, "x-")), units.receiver);
      writeFileSync(file, unit);
      return analyze("security", "--offline=true", "--threshold=2", file).status;
    };
    const unit = readFileSync(join(folder, units.receiver), "utf8");
    expect(score(unit)).toBe(0);
    for (const line of [
      "PrivateNetwork=yes",
      "RestrictAddressFamilies=none",
      "IPAddressDeny=any",
      "CapabilityBoundingSet=",
      "ProtectSystem=strict",
      "NoNewPrivileges=yes",
      "SystemCallFilter=@system-service",
    ]) {
      expect([line, score(unit.replace(`\n${line}\n`, "\n"))]).toEqual([line, 1]);
    }
  });

  test("accounts and folders are created as declared", ({ skip }) => {
    const why = missing("systemd-analyze") ?? noHost;
    skip(why !== undefined, why);
    // One uid is mapped in here, so nothing can be given away: the owners are read from what is tried.
    const { stdout, stderr } = onHost(`
      cat >/tmp/sysusers <<'E'\n${text(paths.sysusers)}E
      systemd-sysusers /tmp/sysusers && cat /etc/passwd /etc/group
      cat >/tmp/tmpfiles <<'E'\n${text(paths.tmpfiles)}E
      systemd-tmpfiles --create /tmp/tmpfiles; find ${paths.spool} -type d`);
    expect(stdout + stderr).toMatch(
      new RegExp(`^${receiverUser}:x:\\d+:(\\d+):.*:${paths.spool}:/usr/sbin/nologin$`, "m"),
    );
    const [, gid] = new RegExp(`^${receiverUser}:x:\\d+:(\\d+):`, "m").exec(stdout)!;
    expect(stdout).toMatch(new RegExp(`^${spoolGroup}:x:${gid}:`, "m"));
    for (const { name } of example.hooks) expect(stdout).toContain(`${paths.spool}/${name}`);
  });
});

test("facts report sockets, credentials and the spool as declared", () => {
  const socket = "pushgate-receiver-github.socket";
  const found = new Map(layer.facts.map(({ name, read, want }) => [name, [read, want]]));
  const hooks = example.hooks.map(({ name }) => name).sort();
  const folders = example.hooks.map(({ name }) => `${paths.spool}/${name}`);
  const spool = folders.map((folder) => `${folder} 2770 pushgate-receiver:pushgate-spool`);
  const { port, cidrs } = sourceSets(example).find(({ name }) => name === "github")!;
  expect(Object.fromEntries(found)).toMatchObject({
    [`${socket} is`]: [`socket_state ${socket}`, `enabled active in /pushgate.slice/${socket}`],
    [`${socket} is bound to loopback port ${port}, marked`]: [`bound ${socket}`, "yes"],
    [`${socket} admits`]: [`admits ${socket}`, `${[...cidrs].sort().join(" ")}, not 0.0.0.0/0 ::/0`],
    [`hooks with a credential in ${paths.credentials}`]: [`ls -A ${paths.credentials}`, hooks.join("\n")],
    "the spool's folders": [
      `modes ${[paths.spool, ...folders].join(" ")}`,
      [`${paths.spool} 750 root:pushgate-spool`, ...spool].join("\n"),
    ],
  });
});

test("a changed range, program or hook restarts no socket by name", () => {
  expect(layer.script).not.toMatch(/systemctl (try-)?(re)?start[^\n]*(\.socket|\$\{?(unit|sockets|path))/);
});

test("the receiver has the place of a site's status.json, and none for a hook without a site", () => {
  const [site, docs] = receiverSettings(served).hooks;
  expect(site?.statusFile).toBe("/var/lib/pushgate-sites/site/status.json");
  expect(docs).not.toHaveProperty("statusFile");
});
