/**
 * What hands do to a machine and its zone, in rounds of several faults, and what preview must say of each. Where two
 * layers are changed at once, the first must be mended in spite of what is wrong with the second.
 */
import { paths } from "../../infra/host/paths.ts";
import type { Rule, ZoneState } from "../fakes/cloudflare/zone.ts";

export type Fault = {
  readonly layer: string;
  /** What a hand does, as root on the machine. */
  readonly hand: string;
  /** What preview must say of it; nothing where nothing is wrong but the stamp's number. */
  readonly says: readonly string[];
};

export type EdgeFault = { readonly resource: string; readonly hand: (zone: ZoneState) => void };

export type Round = {
  readonly name: string;
  readonly faults: readonly Fault[];
  readonly edge: readonly EdgeFault[];
  /** Whether a source outside the ranges gets in through them. */
  readonly opens: boolean;
  /** Whether deliveries pass in spite of them; then each one passes while they are mended, too. */
  readonly serves: boolean;
};

const rules = (zone: ZoneState, phase: string): Rule[] => zone.rulesets.find((one) => one.phase === phase)!.rules;
export const custom = (zone: ZoneState) => rules(zone, "http_request_firewall_custom");
const record = (zone: ZoneState, type: string) => zone.dns_records.find((one) => one.type === type)!;

/** The guard mends table and rule by itself within a minute; what it leaves to `up` is seen with its timer stopped. */
const guardAsleep: Fault = {
  layer: "guard",
  hand: `systemctl --quiet disable --now pushgate-guard.timer
while systemctl is-active --quiet pushgate-guard.service; do sleep 0.1; done`,
  says: ['pushgate-guard.timer is: declared is "enabled active", the host reports "disabled inactive"'],
};

/** `hostname`: of the machine they are done to. */
export const driftRounds = (hostname: string): readonly Round[] => [
  {
    name: "files edited, chmodded and chowned, the running system, the program and a secret changed",
    serves: false,
    opens: false,
    faults: [
      guardAsleep,
      {
        layer: "guard",
        hand: `sed -i '2i exit 0' ${paths.lib}/guard`,
        says: [`${paths.lib}/guard has other contents`, "\n- exit 0\n"],
      },
      {
        layer: "origin-key",
        hand: `chmod 0644 ${paths.tls}/origin.key`,
        says: ['origin key and certificate request: declared is "valid", the host reports "the key is 644 root:root"'],
      },
      // Taken up by a reload of the proxy, whose own configuration is no good now.
      {
        layer: "origin-certificate",
        hand: `echo 'a note' >>${paths.tls}/origin.pem`,
        says: [`${paths.tls}/origin.pem has other contents (- on the host, + declared):`, "\n- a note"],
      },
      {
        layer: "proxy",
        hand: `sed -i 's/server_tokens off;/server_tokens of;/' ${paths.nginx}
chown nobody ${paths.tls}/origin-pull-ca.pem`,
        says: [
          `${paths.nginx} has other contents (- on the host, + declared):`,
          "\n-     server_tokens of;\n+     server_tokens off;\n",
          `${paths.tls}/origin-pull-ca.pem is 644 nobody:root, declared is 644 root:root`,
        ],
      },
      {
        layer: "secrets",
        hand: `umask 077
echo somebody-elses-secret-0123456789-abcdef | systemd-creds encrypt --with-key=host --name=site - ${paths.credentials}/site`,
        says: ['credentials changed since they were installed: declared is "none", the host reports "site"'],
      },
      {
        layer: "receiver-program",
        hand: `echo '// by hand' >>${paths.receiver}`,
        says: [`${paths.receiver} is: differs (- on the host, + declared):`],
      },
      {
        layer: "receiver",
        // Not taken up yet: new secrets and a new program must not be refused because of it.
        hand: `echo '{' >${paths.receiverSettings}
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
        hand: `while ip rule del table 9460 2>/dev/null; do :; done
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
        hand: "nft insert rule inet pushgate input tcp dport 8443 accept",
        says: [
          'table inet pushgate: declared is "as declared", the host reports "added: tcp dport 8443 accept (differs)"',
        ],
      },
    ],
    edge: [
      { resource: "custom rules", hand: (zone) => void custom(zone).reverse() },
      {
        resource: "configuration rules",
        hand: (zone) => {
          rules(zone, "http_config_settings")[0]!.enabled = false;
        },
      },
      {
        resource: `${hostname} A`,
        hand: (zone) => {
          record(zone, "A").proxied = false;
        },
      },
      {
        resource: `${hostname} AAAA`,
        hand: (zone) => {
          record(zone, "AAAA").content = "2001:db8::dead";
        },
      },
    ],
  },
  {
    name: "files deleted, replaced by links, and one nobody declared; stamps, units, an allowlist widened, tables flushed, a rule of somebody else's before ours",
    serves: true,
    opens: true,
    faults: [
      guardAsleep,
      {
        layer: "packages",
        hand: "dpkg --remove --force-depends nodejs 2>&1",
        says: ['package nodejs: declared is "installed", the host reports "missing"'],
      },
      {
        layer: "origin-key",
        hand: `echo '$(reboot)' >${paths.stamps}/origin-key`,
        says: ["the stamp on the host is not valid"],
      },
      {
        layer: "origin-certificate",
        hand: `rm ${paths.stamps}/origin-certificate`,
        says: ["no stamp: the last apply did not finish"],
      },
      // Another of our stamps, as from a backup: nothing is wrong on the machine. And without node nobody can look.
      { layer: "receiver-program", hand: `sed -i 1s/.*/0123456789ab/ ${paths.stamps}/receiver-program`, says: [] },
      { layer: "secrets", hand: ":", says: [] },
      {
        layer: "receiver",
        hand: `cd ${paths.units}
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
        hand: `cp ${paths.nginx} /root/nginx.conf
ln -sf /root/nginx.conf ${paths.nginx}
systemctl --quiet disable nginx.service`,
        says: [
          `${paths.nginx} is a symbolic link, not a file`,
          'nginx.service is: declared is "enabled active", the host reports "disabled active"',
        ],
      },
      {
        layer: "firewall",
        hand: "systemctl --quiet disable --now pushgate-firewall.service && nft flush ruleset",
        says: [
          'table inet pushgate: declared is "as declared", the host reports "absent"',
          'pushgate-firewall.service is: declared is "enabled active", the host reports "disabled inactive"',
        ],
      },
    ],
    edge: [
      {
        resource: "custom rules",
        hand: (zone) => {
          custom(zone)[0]!.expression = '(http.host eq "elsewhere.example.org")';
          const foreign = { ...custom(zone)[0]!, id: "f".repeat(32), ref: "theirs", description: "a person's own" };
          const { action_parameters: _, logging: __, ...plain } = foreign;
          custom(zone).unshift({ ...plain, action: "managed_challenge", expression: "(ssl)" });
        },
      },
      {
        resource: "origin rules",
        hand: (zone) => {
          rules(zone, "http_request_origin")[0]!.action_parameters = { origin: { port: 443 } };
        },
      },
      {
        resource: `${hostname} client certificate`,
        hand: (zone) => {
          zone.origin_pulls.hostnames[0]!.enabled = false;
        },
      },
    ],
  },
];
