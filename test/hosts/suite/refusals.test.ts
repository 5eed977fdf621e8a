/**
 * Hosts that cannot run pushgate, as OpenSSH, the kernel and systemd report it: one `up` prints all errors and changes
 * nothing. test/infra/host/preflight.test.ts has each other fault, ssh.test.ts each message of ssh, and ship.test.ts an `up`
 * beside another. environment.test.ts has an `up` by an ordinary login with sudo.
 */
import { describe, expect, test } from "vitest";
import { isWrite } from "../../fakes/cloudflare/api.ts";
import { ending } from "../deployed.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { know, knownKey } from "../lab/ssh.ts";
import { release } from "../release.ts";
import { buildWorld, hostEntry, hostnameOf } from "../world.ts";

/** Origin ports that are in use: by another process, by a container's published port, and by SSH. */
const ports = { process: 2053, published: 2083, ssh: 2087 };

/** A script that listens on a port; the kernel reports a script by its file name, "listener". */
const listener = `#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 1) or die;
sleep 999;
`;

const [fit, blind] = await Promise.all([
  bootHost({ name: "fit", release, variant: "packages" }),
  bootHost({ name: "blind", release, variant: "packages", enforces: false }),
]);
await fit.writeFile("/usr/local/bin/listener", listener, "0755");
await fit.inside(`set -e
systemd-run --quiet listener ${ports.process}
nft 'table ip container-nat { chain prerouting { type nat hook prerouting priority dstnat; tcp dport { 80, ${ports.published} } dnat to 172.17.0.2:80; }; }'
echo 'Port 22
Port ${ports.ssh}' >/etc/ssh/sshd_config.d/ports.conf
systemctl restart ssh`);
await until("the listener listens on its port", async () =>
  (await fit.read("ss -Hltnp")).includes("listener") ? true : undefined,
);
// A name whose host has another key, and an address without a host.
know("swapped", fit.address, knownKey("blind"));
know("silent", fit.address.replace(/\d+$/, "251"), knownKey("blind"));

/** Everything on the hosts that an apply could change. */
const states = () =>
  Promise.all(
    [fit, blind].map(async (host) => ({
      etc: await host.snapshot("/etc"),
      local: await host.snapshot("/usr/local"),
      own: await host.read("ls -d /var/lib/pushgate /var/spool/pushgate 2>/dev/null || true"),
      tables: await host.read("nft list ruleset 2>/dev/null || true"),
    })),
  );

/** One entry for each fault, with a different login, name, address or port, because entries must be unique. */
const hosts = () => {
  let last = 200;
  const entry = (host: Host, name: string, change: Record<string, unknown>) => {
    last += 1;
    // For DNS only: ssh goes to the host all the same.
    const at = { address: host.address.replace(/\d+$/, String(last)), address6: `2001:db8:113::${last}` };
    return hostEntry(host, { name, hostname: hostnameOf({ name }), ...at, ...change });
  };
  return [
    entry(fit, "process", { ssh: "root@fit", originPort: ports.process }),
    entry(fit, "published", { ssh: "root@fit.example.org", originPort: ports.published }),
    entry(fit, "lockout", { ssh: "deploy@fit.example.org", sudo: true, originPort: ports.ssh }),
    entry(fit, "guest", { ssh: "guest@fit", sudo: true }),
    entry(fit, "nologin", { ssh: "nobody@fit" }),
    // Different logins: ControlPath's %C contains address and login, so ssh would reuse root's open connection to the
    // same address and not check the key.
    entry(fit, "swapped", { ssh: "swapped@swapped" }),
    entry(fit, "silent", { ssh: "root@silent" }),
    entry(fit, "nowhere", { ssh: "root@no-such-name.example.org" }),
    entry(blind, "blind", { ssh: "root@blind" }),
  ];
};

const world = ending(await buildWorld([fit], { config: { "pushgate:hosts": hosts() }, starts: true }), fit, blind);
const before = await states();
const failed = await world.stack.up();
const errors = failed.diagnostics.filter(({ severity }) => severity === "error");
const printed = errors.map(({ message }) => message).join("\n");

/** The lines of the error about one entry: its first line, and the indented lines below it. */
const about = (name: string): string => {
  const lines = printed.split("\n");
  const first = lines.findIndex((line) => line.startsWith(`${name}: `) || line.startsWith(`${name} cannot `));
  if (first < 0) return "";
  const more = lines.slice(first + 1).findIndex((line) => !line.startsWith("  "));
  return lines.slice(first, more < 0 ? undefined : first + 1 + more).join("\n");
};

describe("up rejects a host that ssh cannot reach", () => {
  test.each([
    ["guest", "no sudo there for this login", /sudo .*NOPASSWD: ALL/],
    ["nologin", "no such login", /the host rejects the login.*ssh-add -l/],
    ["swapped", "another host key than the known one", /its SSH host key is unknown or has changed.*ssh-keygen -lf/],
    ["silent", "no host at that address", /the host is unreachable.*`state: lost`/],
    ["nowhere", "a name without an address", /its name does not resolve.*~\/\.ssh\/config/],
  ])("%s: %s", (name, _, says) => {
    expect(about(name)).toMatch(says);
    expect(about(name)).toContain("nothing was changed");
  });
});

describe("up rejects a host that cannot run pushgate", () => {
  test.each([
    ["process", "a process on the origin port", /origin port 2053 is in use by listener\. Set `originPort`/],
    ["published", "a container's published port", /a container publishes the origin port 2083 .*\. Set `originPort`/],
    ["lockout", "SSH itself on the origin port", /origin port 2087 is the SSH port, .*lock you out/],
    ["blind", "a container whose manager cannot enforce an allowlist", /packet filter .*--system-call-filter=bpf/],
  ])("%s: %s", (name, _, says) => {
    expect(about(name)).toContain(`${name} cannot carry pushgate, nothing was changed`);
    expect(about(name)).toMatch(says);
  });
});

test("the failed up changed nothing on the hosts or at Cloudflare", async () => {
  expect(failed.code).toBe(1);
  expect(failed.steps.filter(({ type }) => !type.startsWith("pulumi:"))).toEqual([]);
  expect(await states()).toEqual(before);
  for (const host of [fit, blind]) expect(await host.journal("pushgate-apply")).toContain("No entries");
  expect(world.api.requests.filter(isWrite)).toEqual([]);
});
