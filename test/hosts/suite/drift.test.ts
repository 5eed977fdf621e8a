/**
 * Plain `pulumi preview` finds and prints manual changes on a host, and `up` repairs them in place, without a restart of
 * nginx's or the receiver's socket, and each layer although a later one is still wrong. Changes at Cloudflare are in
 * test/engine/edge-drift.test.ts.
 */
import { expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { deployedWorld, deployedName as name } from "../deployed.ts";

/** `change`: a shell script that root runs on the host. `says`: texts that preview must print about it. */
type Fault = { readonly layer: string; readonly change: string; readonly says: readonly string[] };

/** A drop-in with which a start of the unit does nothing. */
const idle = (unit: string) => `mkdir ${paths.units}/${unit}.d
printf '[Service]\\nExecStart=\\nExecStart=true\\n' >${paths.units}/${unit}.d/idle.conf
systemctl daemon-reload`;

/** What a layer's facts read of a running system; reconcile.test.ts has each way in which a file can differ. */
const faults: readonly Fault[] = [
  {
    // The guard would repair table and rule within a minute.
    layer: "guard",
    change: `systemctl --quiet disable --now pushgate-guard.timer
while systemctl is-active --quiet pushgate-guard.service; do sleep 0.1; done
${idle("pushgate-guard.service")}`,
    says: [
      'pushgate-guard.timer is: declared is "enabled active", the host reports "disabled inactive"',
      `${paths.units}/pushgate-guard.service.d/idle.conf is not declared and will be removed`,
    ],
  },
  {
    layer: "packages",
    change: "dpkg --remove --force-depends nodejs 2>&1",
    says: ['nodejs, openssl: declared is "installed", the host reports "missing: nodejs"'],
  },
  {
    layer: "origin-key",
    change: `chmod 0644 ${paths.tls}/origin.key`,
    says: ['origin key and certificate request: declared is "valid", the host reports "the key is 644 root:root"'],
  },
  {
    layer: "proxy",
    change: `sed -i 's/server_tokens off;/server_tokens of;/' ${paths.nginx}
systemctl --quiet disable ${units.nginx}`,
    says: [
      `${paths.nginx} has other contents (- on the host, + declared):`,
      "\n-     server_tokens of;\n+     server_tokens off;\n",
      `${units.nginx} is: declared is "enabled active", the host reports "disabled active"`,
    ],
  },
  {
    layer: "secrets",
    change: `umask 077
echo another-owners-secret-0123456789-abcdef | systemd-creds encrypt --with-key=host --name=site - ${paths.credentials}/site`,
    says: ['credentials changed since they were installed: declared is "none", the host reports "site"'],
  },
  {
    layer: "receiver",
    // The receiver has not read this file yet: it must not stop the apply of new secrets.
    change: `echo '// by hand' >>${paths.receiver}
echo '{' >${paths.receiverSettings}
systemctl --quiet disable pushgate-receiver.service
chmod 0700 ${paths.spool}/site
mkdir ${paths.units}/pushgate-receiver-github.socket.d
printf '[Socket]\\nIPAddressAllow=any\\n' >${paths.units}/pushgate-receiver-github.socket.d/wide.conf
systemctl daemon-reload
systemd-run --quiet --wait --collect --slice=pushgate.slice true
systemctl --quiet disable --now pushgate-receiver-docs.socket`,
    says: [
      `${paths.receiverSettings} has other contents`,
      `${paths.receiver} is: differs (- on the host, + declared):`,
      'pushgate-receiver.service is: declared is "enabled active", the host reports "disabled active"',
      'pushgate-receiver.service runs what is installed: declared is "yes", the host reports "no"',
      `\n- ${paths.spool}/site 2700 pushgate-receiver:pushgate-spool\n`,
      `${paths.units}/pushgate-receiver-github.socket.d/wide.conf is not declared and will be removed`,
      "pushgate-receiver-github.socket admits: declared is",
      'pushgate-receiver-docs.socket is: declared is "enabled active in /pushgate.slice/pushgate-receiver-docs.socket", the host reports "disabled inactive',
    ],
  },
  {
    layer: "routing",
    change: `while ip rule del table 9460 2>/dev/null; do :; done
ip -6 route flush table 9460
ln -sf /dev/null ${paths.units}/pushgate-routing.service`,
    says: [
      "IPv4 routing rule: declared is",
      "IPv6 route in table 9460: declared is",
      `${paths.units}/pushgate-routing.service is a `,
    ],
  },
  {
    layer: "firewall",
    change: `${idle("pushgate-firewall.service")}
systemctl --quiet disable --now pushgate-firewall.service && nft flush ruleset`,
    says: [
      `${paths.units}/pushgate-firewall.service.d/idle.conf is not declared and will be removed`,
      'table inet pushgate: declared is "as declared", the host reports "absent"',
      'pushgate-firewall.service is: declared is "enabled active", the host reports "disabled inactive"',
    ],
  },
];

const { world, host } = await deployedWorld("drift");

test("preview reports manual changes of every layer, and up repairs all of them in place", async () => {
  const untouched = () =>
    host.read(`systemctl show -p ActiveEnterTimestampMonotonic ${units.socket("github")} ${units.nginxSocket}`);
  const before = await untouched();
  for (const { change } of faults) await host.inside(change);

  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  const said = preview.diagnostics.map(({ message }) => message).join("\n");
  for (const { layer, says } of faults)
    for (const words of says) {
      expect(said).toContain(`${name}: ${layer}: `);
      expect(said).toContain(words);
    }
  const updates = faults.map(({ layer }) => `update ${name}-${layer}`).sort();
  expect(preview.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort()).toEqual(updates);

  const up = await world.stack.up();
  expect(up.code, up.stdout).toBe(0);
  expect(up.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort()).toEqual(updates);
  expect(await untouched()).toBe(before);
  expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  const again = await world.stack.preview("--expect-no-changes");
  expect(again.code, again.stdout).toBe(0);
});
