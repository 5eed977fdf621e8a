/**
 * Manual changes to a host and its zone, in rounds of several faults, and the lines that preview must print about each.
 * If two layers are changed at once, `up` must repair the first although the second is still wrong.
 */
import { paths, units } from "../../infra/host/paths.ts";
import type { Rule, ZoneState } from "../fakes/cloudflare/zone.ts";

export type Fault = {
  readonly layer: string;
  /** The manual change: a shell script that root runs on the host. */
  readonly change: string;
  /** Texts that preview must print about it; empty if only the stamp differs. */
  readonly says: readonly string[];
};

export type EdgeFault = { readonly resource: string; readonly change: (zone: ZoneState) => void };

export type Round = {
  readonly name: string;
  readonly faults: readonly Fault[];
  readonly edge: readonly EdgeFault[];
  /** True if a source outside the ranges reaches the receiver through these faults. */
  readonly opens: boolean;
  /** True if deliveries pass despite these faults; then every delivery must also pass while `up` repairs them. */
  readonly serves: boolean;
};

const rules = (zone: ZoneState, phase: string): Rule[] => zone.rulesets.find((one) => one.phase === phase)!.rules;
export const custom = (zone: ZoneState) => rules(zone, "http_request_firewall_custom");
const record = (zone: ZoneState, type: string) => zone.dns_records.find((one) => one.type === type)!;

/** The guard repairs table and rule within a minute. With its timer stopped, preview reports them and `up` repairs. */
const guardAsleep: Fault = {
  layer: "guard",
  change: `systemctl --quiet disable --now pushgate-guard.timer
while systemctl is-active --quiet pushgate-guard.service; do sleep 0.1; done`,
  says: ['pushgate-guard.timer is: declared is "enabled active", the host reports "disabled inactive"'],
};

/** A drop-in with which a start of the unit does nothing. */
const idle = (unit: string) => `mkdir ${paths.units}/${unit}.d
printf '[Service]\\nExecStart=\\nExecStart=true\\n' >${paths.units}/${unit}.d/idle.conf
systemctl daemon-reload`;

/** `hostname`: the hook hostname of the changed host. */
export const driftRounds = (hostname: string): readonly Round[] => [
  {
    name: "files edited, chmodded and chowned, the running system, the program and a secret changed",
    serves: false,
    opens: false,
    faults: [
      guardAsleep,
      {
        layer: "guard",
        change: `sed -i '2i exit 0' ${paths.lib}/guard
${idle("pushgate-guard.service")}`,
        says: [
          `${paths.lib}/guard has other contents`,
          "\n- exit 0\n",
          `${paths.units}/pushgate-guard.service.d/idle.conf is not declared and will be removed`,
        ],
      },
      {
        layer: "origin-key",
        change: `chmod 0644 ${paths.tls}/origin.key`,
        says: ['origin key and certificate request: declared is "valid", the host reports "the key is 644 root:root"'],
      },
      // The next reload of nginx reads this file, but nginx's own configuration is broken in this round.
      {
        layer: "origin-certificate",
        change: `echo 'a note' >>${paths.tls}/origin.pem`,
        says: [`${paths.tls}/origin.pem has other contents (- on the host, + declared):`, "\n- a note"],
      },
      {
        layer: "proxy",
        change: `sed -i 's/server_tokens off;/server_tokens of;/' ${paths.nginx}
chown www-data ${paths.tls}/origin-pull-ca.pem`,
        says: [
          `${paths.nginx} has other contents (- on the host, + declared):`,
          "\n-     server_tokens of;\n+     server_tokens off;\n",
          `${paths.tls}/origin-pull-ca.pem is 644 www-data:root, declared is 644 root:root`,
        ],
      },
      {
        layer: "secrets",
        change: `umask 077
echo another-owners-secret-0123456789-abcdef | systemd-creds encrypt --with-key=host --name=site - ${paths.credentials}/site`,
        says: ['credentials changed since they were installed: declared is "none", the host reports "site"'],
      },
      {
        layer: "receiver-program",
        change: `echo '// by hand' >>${paths.receiver}`,
        says: [`${paths.receiver} is: differs (- on the host, + declared):`],
      },
      {
        layer: "receiver",
        // The receiver has not read this file yet: it must not stop the apply of new secrets and of a new program.
        change: `echo '{' >${paths.receiverSettings}
systemctl --quiet disable pushgate-receiver.service
chmod 0700 ${paths.spool}/site`,
        says: [
          `${paths.receiverSettings} has other contents`,
          'pushgate-receiver.service is: declared is "enabled active", the host reports "disabled active"',
          'pushgate-receiver.service runs what is installed: declared is "yes", the host reports "no"',
          `\n- ${paths.spool}/site 2700 pushgate-receiver:pushgate-spool\n`,
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
        change: "nft insert rule inet pushgate input tcp dport 8443 accept",
        says: [
          'table inet pushgate: declared is "as declared", the host reports "added: tcp dport 8443 accept (differs)"',
        ],
      },
    ],
    edge: [
      { resource: "custom rules", change: (zone) => void custom(zone).reverse() },
      {
        resource: "configuration rules",
        change: (zone) => {
          rules(zone, "http_config_settings")[0]!.enabled = false;
        },
      },
      {
        resource: `${hostname} A`,
        change: (zone) => {
          record(zone, "A").proxied = false;
        },
      },
      {
        resource: `${hostname} AAAA`,
        change: (zone) => {
          record(zone, "AAAA").content = "2001:db8::dead";
        },
      },
    ],
  },
  {
    name: "files deleted, replaced by links, and an undeclared one added; stamps and units changed, an allowlist widened, tables flushed, another owner's rule before the declared ones",
    serves: true,
    opens: true,
    faults: [
      guardAsleep,
      {
        layer: "packages",
        change: "dpkg --remove --force-depends nodejs 2>&1",
        says: ['nodejs, openssl: declared is "installed", the host reports "missing: nodejs"'],
      },
      {
        layer: "origin-key",
        change: `echo '$(reboot)' >${paths.stamps}/origin-key`,
        says: ["the stamp on the host is not valid"],
      },
      {
        layer: "origin-certificate",
        change: `rm ${paths.stamps}/origin-certificate`,
        says: ["no stamp: the last apply did not finish"],
      },
      // A valid but older stamp, as from a backup: the host itself is as declared.
      { layer: "receiver-program", change: `sed -i 1s/.*/0123456789ab/ ${paths.stamps}/receiver-program`, says: [] },
      {
        layer: "receiver",
        change: `cd ${paths.units}
sed -i s/^TasksMax=64/TasksMax=640/ pushgate-receiver.service
: >pushgate-receiver-extra.socket
rm ${paths.tmpfiles}
mv ${paths.receiverSettings} /root/receiver.json
ln -s /root/receiver.json ${paths.receiverSettings}
mkdir ${paths.units}/pushgate-receiver-github.socket.d
printf '[Socket]\\nIPAddressAllow=any\\n' >${paths.units}/pushgate-receiver-github.socket.d/wide.conf
systemctl daemon-reload
systemd-run --quiet --wait --collect --slice=pushgate.slice true
systemctl --quiet disable --now pushgate-receiver-docs.socket`,
        says: [
          `${paths.units}/pushgate-receiver.service has other contents (- on the host, + declared):`,
          "\n- TasksMax=640\n+ TasksMax=64\n",
          `${paths.units}/pushgate-receiver-extra.socket is not declared and will be removed`,
          `${paths.tmpfiles} is missing`,
          `${paths.receiverSettings} is a symbolic link, not a file`,
          `${paths.units}/pushgate-receiver-github.socket.d/wide.conf is not declared and will be removed`,
          "pushgate-receiver-github.socket admits: declared is",
          'pushgate-receiver-docs.socket is: declared is "enabled active in /pushgate.slice/pushgate-receiver-docs.socket", the host reports "disabled inactive',
        ],
      },
      {
        layer: "proxy",
        change: `cp ${paths.nginx} /root/nginx.conf
ln -sf /root/nginx.conf ${paths.nginx}
systemctl --quiet disable ${units.nginx}`,
        says: [
          `${paths.nginx} is a symbolic link, not a file`,
          `${units.nginx} is: declared is "enabled active", the host reports "disabled active"`,
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
    ],
    edge: [
      {
        resource: "custom rules",
        change: (zone) => {
          custom(zone)[0]!.expression = '(http.host eq "elsewhere.example.org")';
          const foreign = {
            ...custom(zone)[0]!,
            id: "f".repeat(32),
            ref: "another_owner",
            description: "another owner's rule",
          };
          const { action_parameters: _, logging: __, ...plain } = foreign;
          custom(zone).unshift({ ...plain, action: "managed_challenge", expression: "(ssl)" });
        },
      },
      {
        resource: "origin rules",
        change: (zone) => {
          rules(zone, "http_request_origin")[0]!.action_parameters = { origin: { port: 443 } };
        },
      },
      {
        resource: `${hostname} client certificate`,
        change: (zone) => {
          zone.origin_pulls.hostnames[0]!.enabled = false;
        },
      },
    ],
  },
];
