/**
 * Checks the assumptions of the suite about its throwaway hosts, on each release: run `node
 * test/hosts/lab/lab.selftest.ts [bookworm] [trixie]` as root. Removes each protection once, to prove that its check
 * notices.
 */
import assert from "node:assert/strict";
import { get } from "node:http";
import { bootHost, type Host, killHosts, thaw, thawCopy } from "./host.ts";
import { type Release, releases } from "./image.ts";
import { withLab } from "./lab.ts";
import { addChain } from "./minimal-chain.ts";
import { addNeighbours, neighbourhood } from "./neighbours.ts";
import { actors } from "./net.ts";
import { run } from "./process.ts";

const wanted = releases.filter((release) => process.argv.length < 3 || process.argv.includes(release));
let passed = 0;
let failed = 0;

async function check(release: string, name: string, work: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  const result = await work().then(
    () => "ok",
    (error: Error) => `FAILED\n${error.stack}`,
  );
  if (result === "ok") passed += 1;
  else failed += 1;
  console.log(`${release}: ${name}: ${((performance.now() - started) / 1000).toFixed(2)} s: ${result}`);
}

/** The status of a request from a Cloudflare address, whose header names the visitor. */
const visit = (host: string, edge: string, visitor: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const options = { host, port: 8443, localAddress: edge, headers: { "CF-Connecting-IP": visitor }, agent: false };
    get(options, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    }).on("error", reject);
  });

/**
 * After a daemon-reload systemd 257 reports the new list but leaves the old one in the kernel, until a unit of the same
 * slice starts.
 */
const reload = "systemctl daemon-reload && systemd-run --quiet --wait --collect true";

const [edge4, edge6] = [actors.edge.v4[0], actors.edge.v6[0]];
const [github4, github6] = [actors.github.v4[0], actors.github.v6[0]];
const [stranger4, stranger6] = [actors.stranger.v4[0], actors.stranger.v6[0]];

async function bareHost(release: Release): Promise<void> {
  let host!: Host;
  await check(release, "a bare host boots to ssh within 10 s", async () => {
    const started = performance.now();
    host = await bootHost({ name: "web1", release, variant: "bare" });
    assert.equal((await host.ssh("hostname")).stdout, "web1\n");
    assert.ok(performance.now() - started < 10_000);
  });
  await check(release, "a bare host has no nginx, node or nft", async () => {
    for (const program of ["nginx", "node", "nft"]) await assert.rejects(host.ssh(`command -v ${program}`));
  });
  await check(release, "deploy may sudo, guest may not, and ssh comes from the operator's address", async () => {
    assert.equal((await host.ssh("sudo -n id -un", { user: "deploy" })).stdout, "root\n");
    assert.notEqual((await host.ssh("sudo -n id -un", { user: "guest", check: false })).code, 0);
    assert.match((await host.ssh("echo $SSH_CONNECTION")).stdout, new RegExp(`^${actors.operator.v4[0]} `));
  });
  await check(release, "ssh rejects a changed host key", async () => {
    await host.inside(
      "rm /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key; systemctl restart ssh",
    );
    const { code, stderr } = await host.ssh("true", { check: false });
    assert.equal(code, 255);
    assert.match(stderr, /HOST IDENTIFICATION HAS CHANGED/);
  });
  await check(release, "apt-get installs nginx, nodejs and nftables without a mirror", async () => {
    await host.inside("apt-get -qq update && apt-get -qq -y --no-install-recommends install nginx nodejs nftables");
    assert.match(await host.read("nginx -v 2>&1; node --version; nft --version"), /nginx.*\nv\d+.*\nnftables/);
  });
  await check(release, "apt-get installs git and hugo without a mirror", () =>
    host.inside("apt-get -qq -y --no-install-recommends install git hugo"),
  );
  await host.kill();
}

async function readyHost(release: Release): Promise<void> {
  const host = await bootHost({ name: "web1", release, variant: "packages" });
  await check(release, "systemd-run passes stdin, output and exit code over SSH; its unit name is a lock", async () => {
    const unit = "systemd-run --quiet --wait --pipe --collect --unit=lab-apply sh -s";
    const ran = await host.ssh(unit, { stdin: "cat /proc/self/cgroup; echo to stderr >&2; exit 7", check: false });
    assert.match(ran.stdout, /lab-apply\.service/);
    assert.deepEqual([ran.code, ran.stderr], [7, "to stderr\n"]);
    const first = host.ssh(unit, { stdin: "sleep 1" });
    await host.inside("until systemctl is-active --quiet lab-apply; do sleep 0.05; done");
    assert.match((await host.ssh(unit, { stdin: "true", check: false })).stderr, /lab-apply/);
    await first;
  });
  await check(release, "systemd-creds encrypts with the host's key, and a unit reads it", async () => {
    await host.ssh("systemd-creds encrypt --with-key=host --name=site - /etc/site.cred", { stdin: "a secret" });
    const read = `systemd-run -q --wait --pipe -p LoadCredentialEncrypted=site:/etc/site.cred -p DynamicUser=yes -p PrivateUsers=yes sh -c 'cat "$CREDENTIALS_DIRECTORY/site"'`;
    assert.equal((await host.ssh(read)).stdout, "a secret");
  });
  await check(release, "nft applies a table, which drops packets", async () => {
    const table = `table inet t { chain c { type filter hook input priority 0; tcp dport 80 ip saddr ${stranger4} drop; }; }`;
    const http = (from: string) =>
      run("curl", ["-s", "-m1", "-o/dev/null", "--interface", from, `http://${host.address}/`], { check: false });
    assert.equal((await http(stranger4)).code, 0);
    await host.inside(`nft '${table}'`);
    assert.deepEqual([(await http(stranger4)).code, (await http(edge4)).code], [28, 0]);
    await host.inside("nft delete table inet t");
  });
  await check(release, "the kernel enforces the allowlist behind a transparent proxy, for IPv4 and IPv6", async () => {
    await addChain(host);
    assert.equal(await visit(host.address, edge4, github4), 200);
    assert.equal(await visit(host.address6!, edge6, github6), 200);
    assert.equal(await visit(host.address, edge4, stranger4), 504);
    assert.equal(await visit(host.address6!, edge6, stranger6), 504);
    assert.equal(await visit(host.address, stranger4, github4), 504, "a stranger's header must not count");
  });
  await check(
    release,
    "without the list a stranger gets through; without the routing rule no client does",
    async () => {
      const drop = "/run/systemd/system/chain.socket.d";
      await host.inside(`mkdir -p ${drop} && printf '[Socket]\\nIPAddressDeny=\\n' >${drop}/open.conf && ${reload}`);
      assert.equal(await visit(host.address, edge4, stranger4), 200);
      await host.inside(`rm ${drop}/open.conf && ${reload}`);
      assert.equal(await visit(host.address, edge4, stranger4), 504);
      await host.inside("ip rule del fwmark 1");
      assert.equal(await visit(host.address, edge4, github4), 504);
    },
  );
  await check(release, "snapshotEtc shows changes of /etc and their removal", async () => {
    const before = await host.snapshotEtc();
    await host.inside("chmod 0600 /etc/nginx/conf.d/chain.conf; echo >>/etc/hosts");
    const changed = await host.snapshotEtc();
    assert.deepEqual(
      Object.keys(before).filter((path) => before[path] !== changed[path]),
      ["hosts", "nginx/conf.d/chain.conf"],
    );
    await host.inside("chmod 0644 /etc/nginx/conf.d/chain.conf; sed -i '$d' /etc/hosts");
    assert.deepEqual(await host.snapshotEtc(), before);
  });
  await check(release, "a reboot keeps files and ends units that were not enabled, and ssh answers again", async () => {
    await host.writeFile("/etc/kept", "kept");
    const boot = await host.read("cat /proc/sys/kernel/random/boot_id");
    await host.reboot();
    assert.notEqual(await host.read("cat /proc/sys/kernel/random/boot_id"), boot);
    assert.equal(
      (await host.ssh("cat /etc/kept; systemctl is-active chain.socket", { check: false })).stdout,
      "keptinactive\n",
    );
  });
  await check(release, "a reboot in which a unit failed throws, even if its second attempt succeeded", async () => {
    const once = "test -e /run/tried || { : >/run/tried; exit 1; }";
    const service = `Type=oneshot\nRemainAfterExit=yes\nRestart=on-failure\nExecStart=/bin/sh -c '${once}'`;
    await host.writeFile(
      "/etc/systemd/system/once.service",
      `[Service]\n${service}\n[Install]\nWantedBy=multi-user.target\n`,
    );
    await host.inside("systemctl enable --quiet once.service");
    await assert.rejects(host.reboot(), /once\.service failed/);
    await host.inside("systemctl disable --quiet once.service");
    await host.reboot();
  });
  await host.kill();
}

async function neighbours(release: Release): Promise<void> {
  const host = await bootHost({ name: "web1", release, variant: "packages" });
  await check(release, "the neighbours are installed, and look the same twice and after a reboot", async () => {
    await addNeighbours(host);
    const first = await neighbourhood(host);
    assert.match(first.shop.v4, /^200 the shop is open /);
    assert.equal(first.shop.logged.length, 2);
    assert.deepEqual(Object.keys(first.tables).sort(), ["inet f2b-table", "ip filter", "ip nat", "ip6 filter"]);
    assert.ok(first.rules.some((rule) => rule.includes("from 10.66.0.0/24 lookup 200")));
    assert.deepEqual(await neighbourhood(host), first);
    await host.reboot();
    assert.deepEqual(await neighbourhood(host), first);
  });
  await check(release, "neighbourhood shows changes to a neighbour", async () => {
    const first = await neighbourhood(host);
    await host.inside("nft delete table inet f2b-table; ip rule del from 10.66.0.0/24; echo >>/etc/nginx/nginx.conf");
    const { tables, rules, nginx, shop } = await neighbourhood(host);
    assert.notDeepEqual(tables, first.tables);
    assert.notDeepEqual(rules, first.rules);
    assert.notDeepEqual(nginx, first.nginx);
    assert.deepEqual(shop, first.shop);
  });
  await check(release, "ufw drops packets to a port that is not open in its rules", async () => {
    await host.inside(
      "systemd-run -q --unit=other -p StandardInput=null perl -MIO::Socket::INET -e 'IO::Socket::INET->new(LocalPort=>9999,Listen=>1)||die;sleep'",
    );
    const { code } = await run("curl", ["-s", "-m1", `http://${host.address}:9999/`], { check: false });
    assert.equal(code, 28);
  });
  await host.kill();
}

async function several(release: Release): Promise<void> {
  await check(release, "two hosts at once, one without IPv6", async () => {
    const hosts = await Promise.all([
      bootHost({ name: "web1", release, variant: "packages" }),
      bootHost({ name: "web2", release, variant: "packages", noIpv6: true }),
    ]);
    const names = await Promise.all(hosts.map(async (host) => (await host.ssh("hostname")).stdout));
    assert.deepEqual(names, ["web1\n", "web2\n"]);
    assert.equal(hosts[1].address6, undefined);
    assert.equal((await hosts[1].ssh("cat /proc/net/if_inet6 2>/dev/null | wc -l")).stdout, "0\n");
    await hosts[0].ssh(`curl -s -o /dev/null http://${hosts[1].address}/`);
    await Promise.all(hosts.map((host) => host.powerOff()));
  });
  await check(release, "a frozen host boots again from the same state, twice", async () => {
    const host = await bootHost({ name: "web1", release, variant: "bare" });
    await host.ssh("systemd-creds encrypt --with-key=host - /etc/x.cred", { stdin: "kept" });
    const frozen = await host.freeze();
    for (let boot = 0; boot < 2; boot++) {
      const again = await thaw(frozen);
      const { stdout } = await again.ssh(
        "systemd-creds decrypt --name= /etc/x.cred -; ls /etc/new 2>/dev/null; touch /etc/new",
        { check: false },
      );
      assert.equal(stdout, "kept");
      await again.kill();
    }
  });
  await check(
    release,
    "copies of a frozen host run beside each other, each with its own address and disk",
    async () => {
      const host = await bootHost({ name: "web1", release, variant: "bare" });
      const frozen = await host.freeze();
      const copies = await Promise.all([thawCopy(frozen, "one"), thawCopy(frozen, "two")]);
      for (const copy of copies) {
        await copy.ssh(`echo ${copy.alias} >>/etc/who`);
        assert.equal((await copy.ssh("hostname")).stdout, "web1\n");
      }
      for (const copy of copies) {
        assert.equal((await copy.ssh("cat /etc/who")).stdout, `${copy.alias}\n`);
        assert.ok((await copy.ssh("ip address show host0")).stdout.includes(` ${copy.address}/24`));
      }
      assert.notEqual(copies[0].address, copies[1].address);
      await Promise.all(copies.map((copy) => copy.kill()));
    },
  );
  await check(release, "a small disk becomes full", async () => {
    const host = await bootHost({ name: "small", release, variant: "bare", diskMegabytes: 64 });
    const { stderr } = await host.ssh("dd if=/dev/zero of=/fill bs=1M", { check: false });
    assert.match(stderr, /No space left/);
    await host.kill();
  });
}

await withLab({ releases: wanted }, async () => {
  await check("lab", "the lab has no link to the outside", async () => {
    const links = (await run("ip", ["-j", "link"])).stdout;
    assert.deepEqual(
      (JSON.parse(links) as { ifname: string }[]).map(({ ifname }) => ifname),
      ["lo", "lab0"],
    );
  });
  for (const release of wanted)
    for (const part of [bareHost, readyHost, neighbours, several]) {
      await part(release);
      await killHosts();
    }
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
});
