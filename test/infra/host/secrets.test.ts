/** What the machine gets of a secret, and where it never is. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { applyScript } from "../../../infra/apply/manifest.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { paths } from "../../../infra/host/paths.ts";
import {
  auditVerdict,
  expectedMac,
  type HookSecrets,
  judgeSecrets,
  probedSecrets,
  secretLines,
  secrets,
  secretsAudit,
} from "../../../infra/host/secrets/secrets.ts";
import { example, rebuilt } from "../../example.ts";
import { secrets as configured } from "../../stack-file.ts";
import { machineNode, noMachine, onMachine } from "./lab/throwaway-host.ts";

const plain: HookSecrets = {
  site: [configured.site.current, configured.site.previous],
  docs: [configured.docs.current],
};
const layer = secrets(example);
const every = Object.values(plain).flat();

test("what travels: a line a hook, newest first", () => {
  expect(secretLines(plain)).toBe(
    `docs ${configured.docs.current}\nsite ${configured.site.current} ${configured.site.previous}\n`,
  );
});

test.each([
  ["white space", ["a b"]],
  ["a line end", ["a\nsite b"]],
  ["nothing", []],
  ["an empty one", [""]],
  ["three", ["a", "b", "c"]],
])("refused before it is sent: %s", (_name, values) => {
  expect(() => secretLines({ site: values })).toThrow(/hook site/);
});

test("a deploy key travels in one line, and arrives with the line end that ssh asks for", () => {
  const key = "-----BEGIN OPENSSH PRIVATE KEY-----\r\nYQ==\r\n-----END OPENSSH PRIVATE KEY-----";
  const sent = secretLines({ site: plain.site!, "key:site": [key] });
  expect(sent.split("\n")).toHaveLength(3);
  const [, base64] = /^key:site (\S+)$/m.exec(sent)!;
  expect(Buffer.from(base64!, "base64").toString()).toBe(`${key.replaceAll("\r", "")}\n`);
});

test("an HMAC by its known answer, and each of secret, order and salt counts", () => {
  const salt = "00".repeat(32);
  const mac = expectedMac(salt, ["It's-a-Secret-to-Everybody"]);
  // printf "It's-a-Secret-to-Everybody\n" | openssl dgst -sha256 -hmac 000…0
  expect(mac).toBe("88677a506a645d3fe221c496f8f183ef08cbcdf4c0fc246a3983ad6347cf966a");
  expect(
    new Set([mac, expectedMac(salt, ["x"]), expectedMac("11".repeat(32), ["It's-a-Secret-to-Everybody"])]).size,
  ).toBe(3);
  expect(expectedMac(salt, ["a", "b"])).not.toBe(expectedMac(salt, ["b", "a"]));
});

test("what is declared holds no secret; what is said of a difference names the hook alone", () => {
  const salt = "ab".repeat(32);
  const said = `salt ${salt}\ndocs ${expectedMac(salt, plain.docs!)}\nsite ${expectedMac(salt, plain.site!)}`;
  expect(auditVerdict(said, plain)).toBe("as declared");
  expect(auditVerdict(said, { ...plain, site: [configured.site.current] })).toBe("differs: site");
  expect(auditVerdict("absent", plain)).toBe("absent");
  expect(auditVerdict(said.replace(/docs .*/, "docs none"), plain)).toBe("differs: docs");
  for (const secret of every) expect(JSON.stringify(probedSecrets(layer))).not.toContain(secret);
});

test("a machine in sync echoes its stamp; a rotated secret is a new one, and no hand's drift", () => {
  const salt = "ab".repeat(32);
  const said = `salt ${salt}\ndocs ${expectedMac(salt, plain.docs!)}\nsite ${expectedMac(salt, plain.site!)}`;
  const seen = {
    name: "secrets",
    stamp: "0123456789ab",
    applied: [],
    files: {},
    owned: [],
    facts: [...layer.facts.map(({ want }) => ({ output: want, status: 0 })), { output: said, status: 0 }],
  };
  expect(judgeSecrets(layer, seen, plain)).toMatchObject({ inSync: true, stamp: "0123456789ab", drift: [] });
  const rotated = judgeSecrets(layer, seen, {
    ...plain,
    docs: [`new-${configured.docs.current}`, configured.docs.current],
  });
  expect(rotated).toMatchObject({ inSync: false, drift: [] });
  expect(rotated.stamp).not.toBe(seen.stamp);
});

const creds = spawnSync("systemd-creds", ["--version"]).status === 0;
const reason = creds ? noMachine : "systemd-creds is not installed: apt-get install systemd";

/** Writes down what anybody could read of the processes that handle a secret, then does the work. */
const watched = `
mkdir -p /tmp/bin /tmp/seen
cat >/tmp/bin/systemd-creds <<'EOS'
#!/bin/sh
for pid in /proc/[0-9]*; do cat "$pid/cmdline" "$pid/environ" >>/tmp/seen/processes 2>/dev/null; done
exec /usr/bin/systemd-creds "$@"
EOS
chmod +x /tmp/bin/systemd-creds
PATH=/tmp/bin:$PATH
`;
/** In a subshell: \`apply\` exits where it fails. */
const applied = (settings: Settings, hookSecrets: HookSecrets) =>
  `( ${applyScript(secrets(settings), "0123456789ab", paths.state, secretLines(hookSecrets))} )\necho "applied $?"\n`;
const audit = (settings: Settings) =>
  `echo AUDIT; ( ${secrets(settings).script}\n${secretsAudit.read} ); echo END\n`.replaceAll(
    "/usr/bin/node",
    machineNode,
  );
const audits = (stdout: string) => [...stdout.matchAll(/AUDIT\n(.*?)\nEND/gs)].map(([, said]) => said!);
const list = `stat -c '%n %a %U:%G' ${paths.credentials} ${paths.credentials}/* ${paths.credentials}/.[!.]* 2>/dev/null`;

describe("on a machine", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("installed encrypted, and in no argv, environment, file or output on the way", () => {
    const { stdout, stderr } = onMachine(`${watched}${applied(example, plain)}${audit(example)}${list}
      for hook in site docs; do systemd-creds decrypt --name=$hook ${paths.credentials}/$hook - | sha256sum; done
      wc -c </tmp/seen/processes
      grep -rlF -e ${every.map((secret) => `'${secret}'`).join(" -e ")} /etc /var/lib /run /tmp /root && echo LEAK`);
    expect(stdout).toContain("applied 0");
    expect(stdout).toContain(`${paths.credentials}/site 600 root:root`);
    expect(stdout).not.toContain("LEAK");
    expect(Number(/^(\d+)$/m.exec(stdout)![1])).toBeGreaterThan(1000);
    for (const secret of every) expect(stdout + stderr).not.toContain(secret);
    expect(auditVerdict(audits(stdout)[0]!, plain)).toBe("as declared");
  }, 30_000);

  test("the watch is not blind: a secret in argv would be seen", () => {
    const { stdout } = onMachine(`${watched}sh -c 'systemd-creds --version >/dev/null; :' ${configured.site.current}
      grep -rlF '${configured.site.current}' /tmp/seen && echo LEAK`);
    expect(stdout).toContain("LEAK");
  }, 30_000);

  test("rotation, a hook more and a hook less; the salt stays", () => {
    const rotated: HookSecrets = {
      site: [`new-${configured.site.current}`, configured.site.current],
      docs: plain.docs!,
    };
    const [site] = example.hooks;
    const less = { ...example, hooks: [site!] };
    const { stdout } =
      onMachine(`${applied(example, plain)}${audit(example)}${applied(example, rotated)}${audit(example)}
      ${applied(less, { site: rotated.site! })}${audit(less)}${list}`);
    expect(stdout.match(/applied 0/g)).toHaveLength(3);
    const [first, second, third] = audits(stdout);
    expect(auditVerdict(first!, plain)).toBe("as declared");
    expect(auditVerdict(second!, rotated)).toBe("as declared");
    expect(auditVerdict(second!, plain)).toBe("differs: site");
    expect(auditVerdict(third!, { site: rotated.site! })).toBe("as declared");
    expect(second!.split("\n")[0]).toBe(first!.split("\n")[0]);
    // The unit that runs now still asks for it: the receiver's layer takes it away with the line that does.
    expect(stdout).toContain(`${paths.credentials}/docs`);
  }, 30_000);

  test.each<[string, string, RegExp]>([
    ["a secret for a hook that is not declared", `other ${"x".repeat(40)}\n`, /not declared/],
    ["no secret for a declared hook", `site ${configured.site.current}\n`, /no secret came for docs/],
    ["a hook without its secret", "site\n", /empty secret came for site/],
  ])(
    "%s is refused, and the former ones stay",
    (_name, input, says) => {
      const bad = `( ${applyScript(layer, "aaaaaaaaaaaa", paths.state, input)} )\necho "applied $?"\n`;
      const { stdout, stderr } = onMachine(`${applied(example, plain)}${bad}${audit(example)}${list}`);
      expect(stdout).toContain("applied 1");
      expect(stderr).toMatch(says);
      expect(stderr).not.toContain(configured.site.current);
      expect(auditVerdict(audits(stdout)[0]!, plain)).toBe("as declared");
    },
    30_000,
  );

  test("a deploy key is installed whole, under the name its unit loads it by, and audited as the others", () => {
    const key = `-----BEGIN OPENSSH PRIVATE KEY-----\n${"a".repeat(70)}\n${"b".repeat(70)}\n-----END OPENSSH PRIVATE KEY-----`;
    const withKey: HookSecrets = { ...plain, "key:docs": [key] };
    const { stdout, stderr } = onMachine(`${watched}${applied(rebuilt, withKey)}${audit(rebuilt)}${list}
      systemd-creds decrypt --name=deploy-key ${paths.credentials}/docs-deploy-key - | sha256sum
      grep -rlF -e '${"a".repeat(70)}' -e '${Buffer.from(key).toString("base64").slice(40, 120)}' /etc /var/lib /run /tmp /root && echo LEAK
      printf 'forged-forged-forged-forged-forged-forged' | systemd-creds encrypt --with-key=host --name=deploy-key - ${paths.credentials}/docs-deploy-key
      ${audit(rebuilt)}`);
    expect(stdout + stderr).toContain("applied 0");
    expect(stdout).toContain(`${paths.credentials}/docs-deploy-key 600 root:root`);
    expect(stdout).toContain(createHash("sha256").update(`${key}\n`).digest("hex"));
    expect(stdout).not.toContain("LEAK");
    expect(audits(stdout).map((said) => auditVerdict(said, withKey))).toEqual(["as declared", "differs: key:docs"]);
    const none = onMachine(applied(rebuilt, plain));
    expect(none.stderr).toContain("no secret came for key:docs; nothing was replaced");
  }, 30_000);

  test("a credential taken or changed by hand is seen", () => {
    const { stdout } = onMachine(`${applied(example, plain)}
      rm ${paths.credentials}/docs; ${audit(example)}
      printf 'forged-forged-forged-forged-forged-forged' | systemd-creds encrypt --with-key=host --name=docs - ${paths.credentials}/docs
      ${audit(example)}`);
    expect(audits(stdout).map((said) => auditVerdict(said, plain))).toEqual(["differs: docs", "differs: docs"]);
  }, 30_000);

  test("removed, nothing of it stays", () => {
    const { stdout } = onMachine(
      `${applied(example, plain)}(${layer.script}\n${layer.retire}); ls -A /etc/pushgate /var/lib/pushgate`,
    );
    expect(stdout).not.toMatch(/credentials|salt/);
  }, 30_000);
});
