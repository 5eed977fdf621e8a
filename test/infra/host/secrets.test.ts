/** The secrets layer: what the host stores, and where no plain secret may appear. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { applyScript, factLine } from "../../../infra/apply/manifest.ts";
import type { SeenLayer } from "../../../infra/apply/report.ts";
import type { Credentials, Settings } from "../../../infra/config/settings.ts";
import { paths } from "../../../infra/host/paths.ts";
import {
  auditVerdict,
  credentialFiles,
  expectedSum,
  judgeSecrets,
  loadCredential,
  probedSecrets,
  secretLines,
  secretsAudit,
  secretsLayer,
} from "../../../infra/host/secrets/secrets.ts";
import { secrets as configured, example, rebuilt } from "../../fixtures.ts";
import { noHost, onHost } from "./lab/throwaway-host.ts";

const plain: Credentials = {
  site: [configured.site.current, configured.site.previous],
  docs: [configured.docs.current],
};
const layer = secretsLayer(example);
const every = Object.values(plain).flat();

test("the layer's input is one line for each hook, its newest secret first", () => {
  expect(secretLines(plain)).toBe(
    `docs ${configured.docs.current}\nsite ${configured.site.current} ${configured.site.previous}\n`,
  );
});

test("the lines are sorted by name", () => {
  expect(secretLines({ b: ["2"], a: ["1"], d: ["4"], c: ["3"] })).toBe("a 1\nb 2\nc 3\nd 4\n");
});

test("the audit reads sums", () => {
  expect(secretsAudit).toEqual({ name: "installed secrets", read: "sums" });
});

test.each([
  ["one good and one of two words", ["good", "a b"]],
  ["two words", ["a b"]],
  ["two lines", ["a\nsite b"]],
  ["missing", []],
  ["empty", [""]],
  ["one of three", ["a", "b", "c"]],
])("secretLines throws on a secret that is %s", (_name, values) => {
  expect(() => secretLines({ site: values })).toThrow(/hook site/);
});

test("a deploy key travels in one line, and arrives with the final line end that ssh requires", () => {
  const key = "-----BEGIN OPENSSH PRIVATE KEY-----\r\nYQ==\r\n-----END OPENSSH PRIVATE KEY-----";
  const sent = secretLines({ site: plain.site!, "site.deploy-key": [`\n${key}\r\n\n`] });
  expect(sent.split("\n")).toHaveLength(3);
  const [, base64] = /^site\.deploy-key (\S+)$/m.exec(sent)!;
  expect(Buffer.from(base64!, "base64").toString()).toBe(`${key.replaceAll("\r", "")}\n`);
});

test("expectedSum gives the known answer, and depends on secret, order and salt", () => {
  const salt = "00".repeat(32);
  const sum = expectedSum(salt, ["It's-a-Secret-to-Everybody"]);
  // printf "It's-a-Secret-to-Everybody\n" after 000…0 | sha256sum
  expect(sum).toBe("362b635974e9a2924232bcdd82900cc9614965bc6fd40f3b6768f9b7c95b9d0c");
  expect(
    new Set([sum, expectedSum(salt, ["x"]), expectedSum("11".repeat(32), ["It's-a-Secret-to-Everybody"])]).size,
  ).toBe(3);
  expect(expectedSum(salt, ["a", "b"])).not.toBe(expectedSum(salt, ["b", "a"]));
});

test("the audit reports absent credentials unless the host prints one salt of 64 digits", () => {
  const salt = "5a".repeat(32);
  const printed = (first: string) => auditVerdict(`${first}\nsite ${expectedSum(salt, plain.site!)}\n`, {});
  expect([printed(""), printed(`salt ${salt.slice(1)}`), printed(`salt ${salt}0`), printed(`a salt ${salt}`)]).toEqual(
    Array(4).fill("absent"),
  );
  expect([auditVerdict("", plain), printed(`  salt ${salt}  `)]).toEqual(["absent", "as declared"]);
});

test("the verdict sorts the names that differ", () => {
  const secrets = { zeta: ["a"], alpha: ["b"], middle: ["c"] };
  const printed = `salt ${"5a".repeat(32)}\nmiddle ${expectedSum("5a".repeat(32), ["c"])}`;
  expect(auditVerdict(printed, secrets)).toBe("differs: alpha, zeta");
});

test("each credential has the file that its unit names, and a hook without a site has no deploy key", () => {
  expect([undefined, "deployKey" as const, "status" as const].map((kind) => loadCredential("docs", kind))).toEqual([
    "LoadCredentialEncrypted=docs:/etc/pushgate/credentials/docs",
    "LoadCredentialEncrypted=deploy-key:/etc/pushgate/credentials/docs.deploy-key",
    "LoadCredentialEncrypted=status:/etc/pushgate/credentials/docs.status",
  ]);
  expect(credentialFiles(rebuilt).sort()).toEqual(["docs", "docs.deploy-key", "docs.notify", "docs.status", "site"]);
  const docs = rebuilt.hooks.find(({ name }) => name === "docs")!;
  const { site: _, ...without } = docs;
  expect(credentialFiles({ hooks: [without as typeof docs] })).toEqual(["docs"]);
});

test("the declaration holds no secret, and the verdict names only the hooks that differ", () => {
  const salt = "ab".repeat(32);
  const answer = `salt ${salt}\ndocs ${expectedSum(salt, plain.docs!)}\nsite ${expectedSum(salt, plain.site!)}`;
  expect(auditVerdict(answer, plain)).toBe("as declared");
  expect(auditVerdict(answer, { ...plain, site: [configured.site.current] })).toBe("differs: site");
  expect(auditVerdict("absent", plain)).toBe("absent");
  expect(auditVerdict(answer.replace(/docs .*/, "docs none"), plain)).toBe("differs: docs");
  for (const secret of every) expect(JSON.stringify(probedSecrets(layer))).not.toContain(secret);
});

test("a host in sync keeps its stamp; a rotated secret gives a new one and is not reported as drift", () => {
  const salt = "ab".repeat(32);
  const answer = `salt ${salt}\ndocs ${expectedSum(salt, plain.docs!)}\nsite ${expectedSum(salt, plain.site!)}`;
  const seen = {
    name: "secrets",
    stamp: "0123456789ab",
    applied: [],
    files: {},
    owned: [],
    facts: [...layer.facts.map(({ want }) => ({ output: want, status: 0 })), { output: answer, status: 0 }],
  };
  expect(judgeSecrets(layer, seen, plain)).toMatchObject({ inSync: true, stamp: "0123456789ab", drift: [] });
  const rotated = judgeSecrets(layer, seen, {
    ...plain,
    docs: [`new-${configured.docs.current}`, configured.docs.current],
  });
  const unread = "no answer: the shell that reads this layer's facts ended early, or took 15 seconds";
  const applied = [...layer.facts, { ...secretsAudit, want: "as declared" }].map((fact) =>
    factLine(layer.script, fact),
  );
  const driftOf = (facts: SeenLayer["facts"]) => judgeSecrets(layer, { ...seen, applied, facts }, plain).drift;
  expect(driftOf(seen.facts.slice(0, -1))).toEqual([`installed secrets: ${unread}`]);
  expect(driftOf([])).toHaveLength(seen.facts.length);
  expect(rotated).toMatchObject({ inSync: false, drift: [] });
  expect(rotated.stamp).not.toBe(seen.stamp);
});

const creds = spawnSync("systemd-creds", ["--version"]).status === 0;
const reason = creds ? noHost : "systemd-creds is not installed: apt-get install systemd";

/** Records the argv and environment of all processes whenever a secret is handled, then runs the real program. */
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
const applied = (settings: Settings, hookSecrets: Credentials) =>
  `( ${applyScript(secretsLayer(settings), "0123456789ab", paths.state, secretLines(hookSecrets))} )\necho "applied $?"\n`;
const audit = (settings: Settings) =>
  `echo AUDIT; ( ${secretsLayer(settings).script}\n${secretsAudit.read} ); echo END\n`;
const audits = (stdout: string) => [...stdout.matchAll(/AUDIT\n(.*?)\nEND/gs)].map(([, answer]) => answer!);
const list = `stat -c '%n %a %U:%G' ${paths.credentials} ${paths.credentials}/* ${paths.credentials}/.[!.]* 2>/dev/null`;

describe("on a host", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("the layer installs secrets encrypted, and none is in an argv, environment, file or output on the way", () => {
    const { stdout, stderr } = onHost(`${watched}${applied(example, plain)}${audit(example)}${list}
      for hook in site docs; do systemd-creds decrypt --name=$hook ${paths.credentials}/$hook - | sha256sum; done
      wc -c </tmp/seen/processes
      grep -rlF -e ${every.map((secret) => `'${secret}'`).join(" -e ")} /etc /var/lib /run /tmp /root && echo LEAK`);
    expect(stdout).toContain("applied 0");
    expect(stdout).toContain(`${paths.credentials}/site 600 root:root`);
    expect(stdout).not.toContain("LEAK");
    expect(Number(/^(\d+)$/m.exec(stdout)![1])).toBeGreaterThan(1000);
    for (const secret of every) expect(stdout + stderr).not.toContain(secret);
    expect(auditVerdict(audits(stdout)[0]!, plain)).toBe("as declared");
  });

  test("the check above finds a secret in an argv", () => {
    const { stdout } = onHost(`${watched}sh -c 'systemd-creds --version >/dev/null; :' ${configured.site.current}
      grep -rlF '${configured.site.current}' /tmp/seen && echo LEAK`);
    expect(stdout).toContain("LEAK");
  });

  test("after a rotation and after the removal of a hook the audit agrees, the salt stays, and the folder is root's alone", () => {
    const rotated: Credentials = {
      site: [`new-${configured.site.current}`, configured.site.current],
      docs: plain.docs!,
    };
    const [site] = example.hooks;
    const less = { ...example, hooks: [site!] };
    const { stdout } = onHost(`${applied(example, plain)}${audit(example)}
      chmod 0755 ${paths.credentials}
      ${applied(example, rotated)}${audit(example)}
      ${applied(less, { site: rotated.site! })}${audit(less)}${list}`);
    expect(stdout.match(/applied 0/g)).toHaveLength(3);
    const [first, second, third] = audits(stdout);
    expect(auditVerdict(first!, plain)).toBe("as declared");
    expect(auditVerdict(second!, rotated)).toBe("as declared");
    expect(auditVerdict(second!, plain)).toBe("differs: site");
    expect(auditVerdict(third!, { site: rotated.site! })).toBe("as declared");
    expect(second!.split("\n")[0]).toBe(first!.split("\n")[0]);
    expect(stdout).toContain(`${paths.credentials} 700 root:root\n`);
    // The active unit still loads it: the receiver layer removes the file together with that line of the unit.
    expect(stdout).toContain(`${paths.credentials}/docs`);
  });

  test.each<[string, string, RegExp]>([
    ["a secret for a hook that is not declared", `other ${"x".repeat(40)}\n`, /not declared/],
    ["no secret for a declared hook", `site ${configured.site.current}\n`, /no secret arrived for docs/],
    [
      "a secret of 31 characters",
      `site ${"x".repeat(31)}\ndocs ${configured.docs.current}\n`,
      /the secret of site does not decrypt to more than 32 bytes/,
    ],
    ["a hook without its secret", "site\n", /secret that arrived for site is empty/],
  ])(
    "the host rejects %s, and the former secrets stay",
    (_name, input, says) => {
      const bad = `( ${applyScript(layer, "aaaaaaaaaaaa", paths.state, input)} )\necho "applied $?"\n`;
      const { stdout, stderr } = onHost(`${applied(example, plain)}${bad}${audit(example)}${list}`);
      expect(stdout).toContain("applied 1");
      expect(stderr).toMatch(says);
      expect(stderr).not.toContain(configured.site.current);
      expect(auditVerdict(audits(stdout)[0]!, plain)).toBe("as declared");
    },
    30_000,
  );

  test("the layer installs a deploy key and a token whole, under the names by which their units load them, and the audit compares them", () => {
    const key = `-----BEGIN OPENSSH PRIVATE KEY-----\n${"a".repeat(70)}\n${"b".repeat(70)}\n-----END OPENSSH PRIVATE KEY-----`;
    const token = "glpat-0123456789abcdefghij";
    const signing = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const withKey: Credentials = {
      ...plain,
      "docs.deploy-key": [key],
      "docs.status": [token],
      "docs.notify": [signing],
    };
    const { stdout, stderr } = onHost(`${watched}${applied(rebuilt, withKey)}${audit(rebuilt)}${list}
      systemd-creds decrypt --name=deploy-key ${paths.credentials}/docs.deploy-key - | sha256sum
      systemd-creds decrypt --name=status ${paths.credentials}/docs.status - | sha256sum
      grep -rlF -e '${token}' -e '${signing}' -e '${"a".repeat(70)}' -e '${Buffer.from(key).toString("base64").slice(40, 120)}' /etc /var/lib /run /tmp /root && echo LEAK
      printf 'forged-forged-forged-forged-forged-forged' | systemd-creds encrypt --with-key=host --name=deploy-key - ${paths.credentials}/docs.deploy-key
      ${audit(rebuilt)}`);
    expect(stdout + stderr).toContain("applied 0");
    expect(stdout).toContain(`${paths.credentials}/docs.deploy-key 600 root:root`);
    expect(stdout).toContain(createHash("sha256").update(`${key}\n`).digest("hex"));
    expect(stdout).toContain(createHash("sha256").update(`${token}\n`).digest("hex"));
    expect(stdout).not.toContain("LEAK");
    expect(audits(stdout).map((answer) => auditVerdict(answer, withKey))).toEqual([
      "as declared",
      "differs: docs.deploy-key",
    ]);
    const none = onHost(applied(rebuilt, plain));
    expect(none.stderr).toContain("no secret arrived for docs.deploy-key. Nothing was replaced.");
  });

  test("the ssh-agents that run are restarted with the key that arrived, and no other unit", () => {
    const reports = { "docs.status": ["glpat-0123456789abcdefghij"], "docs.notify": ["n".repeat(40)] };
    const withKey: Credentials = {
      ...plain,
      ...reports,
      "docs.deploy-key": [`-----BEGIN KEY-----\n${"a".repeat(70)}`],
    };
    const systemctl = `mkdir -p /mnt/bin; PATH=/mnt/bin:$PATH; cat >/mnt/bin/systemctl <<'END'
#!/bin/sh
echo "systemctl $*" >>/mnt/calls
END
chmod +x /mnt/bin/systemctl; `;
    // The stamp of the builder layer, and a file that it lists.
    const installed = `unit=${paths.units}/pushgate-agent@docs.service
mkdir -p ${paths.units} /var/lib/pushgate/stamps; echo unit >$unit
echo "file $(sha256sum $unit | cut -d ' ' -f 1) 644 root:root $unit" >/var/lib/pushgate/stamps/builder
`;
    const restarts = (change = "") =>
      onHost(`${systemctl}${installed}${change}${applied(rebuilt, withKey)}cat /mnt/calls`).stdout.match(
        /^systemctl .*$/gm,
      );
    expect(restarts()).toEqual(["systemctl try-restart pushgate-agent@docs.service"]);
    // The builder layer restores the file, and then restarts the agent.
    expect(restarts("echo by hand >>$unit; ")).toBeNull();
  });

  test("the audit reports a credential that was removed or replaced on the host, or is encrypted under another's name", () => {
    const { stdout } = onHost(`${applied(example, plain)}
      systemd-creds decrypt --name=docs ${paths.credentials}/docs /tmp/docs
      systemd-creds encrypt --with-key=host --name=site /tmp/docs ${paths.credentials}/docs; ${audit(example)}
      rm ${paths.credentials}/docs; ${audit(example)}
      printf 'forged-forged-forged-forged-forged-forged' | systemd-creds encrypt --with-key=host --name=docs - ${paths.credentials}/docs
      ${audit(example)}`);
    expect(audits(stdout).map((answer) => auditVerdict(answer, plain))).toEqual(Array(3).fill("differs: docs"));
  });

  test("the layer leaves nothing behind when it is removed", () => {
    const { stdout } = onHost(
      `${applied(example, plain)}(${layer.script}\n${layer.retire}); ls -A /etc/pushgate /var/lib/pushgate`,
    );
    expect(stdout).not.toMatch(/credentials|salt/);
  });
});
