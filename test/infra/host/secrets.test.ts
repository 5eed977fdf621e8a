/** The secrets layer: what the host stores, and where no plain secret may appear. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { Credentials, Settings } from "../../../infra/config/settings.ts";
import { paths } from "../../../infra/host/paths.ts";
import {
  auditVerdict,
  expectedSum,
  judgeSecrets,
  probedSecrets,
  secretLines,
  secretsLayer,
} from "../../../infra/host/secrets/secrets.ts";
import { secrets as configured, example, rebuilt, serving } from "../../fixtures.ts";
import { applyScript, seenAsDeclared } from "../apply/shell-host.ts";
import { noHost, onHost } from "./namespace.ts";

const plain: Credentials = {
  site: [configured.site.current, configured.site.previous],
  docs: [configured.docs.current],
};
const layer = secretsLayer(example);
const every = Object.values(plain).flat();

test("secretLines sorts the hooks, and throws on what a line cannot hold, and on none", () => {
  expect(secretLines({ b: ["2"], a: ["1"] })).toBe("a 1\nb 2\n");
  for (const values of [["good", "a b"], ["a\nsite b"], [], [""]])
    expect(() => secretLines({ site: values })).toThrow(/hook site/);
});

const salt = "ab".repeat(32);
const sumOf = (name: string) => `${name} ${expectedSum(salt, plain[name]!, name)}`;

test("the audit's verdict is absent without a salt and a sum of 64 digits", () => {
  const verdict = (first: string, sum: string) => auditVerdict(`${first}\n${sum}`, "site", plain.site!);
  for (const first of ["", "absent", `salt ${salt.slice(1)}`, `salt ${salt}0`, `a salt ${salt}`])
    expect(verdict(first, sumOf("site"))).toBe("absent");
  const ends = ["", "0", "\n"].map((end) => verdict(`salt ${salt}`, `${sumOf("site")}${end}`));
  expect([...ends, verdict(`salt ${salt}`, sumOf("docs"))]).toEqual(["as declared", "absent", "absent", "differs"]);
});

test("a host in sync keeps its stamp; a rotated secret gives a new one and is not reported as drift", () => {
  const answers = ["docs", "site"].map((name) => ({ output: `salt ${salt}\n${sumOf(name)}`, status: 0 }));
  const facts = [...seenAsDeclared(layer).facts, ...answers];
  const seen = { ...seenAsDeclared(probedSecrets(layer, example)), facts };
  const kept = judgeSecrets(layer, { ...seen, applied: [] }, example, plain);
  expect(kept).toMatchObject({ inSync: true, stamp: seen.stamp, drift: [] });
  const docs = [`new-${configured.docs.current}`, configured.docs.current];
  const rotated = judgeSecrets(layer, { ...seen, applied: [] }, example, { ...plain, docs });
  expect(rotated).toMatchObject({ inSync: false, drift: [] });
  expect(rotated.stamp).not.toBe(seen.stamp);
  const { drift } = judgeSecrets(layer, { ...seen, facts: facts.slice(0, -1) }, example, plain);
  expect(drift.map(({ text }) => text)).toEqual([
    "the installed secret site: no answer: the shell that reads this layer's facts ended early, or took 30 seconds",
  ]);
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
const applying = (settings: Settings, input: string) =>
  `( ${applyScript(secretsLayer(settings), "0.1.0-0123456789ab", paths.state, input)} )\necho "applied $?"\n`;
const applied = (settings: Settings, secrets: Credentials) => applying(settings, secretLines(secrets));
const audit = (settings: Settings) =>
  `( ${secretsLayer(settings).script}\nbefore_facts\n${probedSecrets(secretsLayer(settings), settings)
    .facts.slice(layer.facts.length)
    .map(({ read }) => `echo; echo AUDIT; ${read}\n`)
    .join("")}echo END )\n`;
/** The names that differ in each audit. */
const judged = (stdout: string, secrets: Credentials) =>
  [...stdout.matchAll(/AUDIT\n.*?\nEND/gs)].map(([all]) => {
    const answers = all.split(/\n*(?:AUDIT|END)\n*/);
    const found = (name: string) => answers.find((answer) => answer.includes(`\n${name} `)) ?? "";
    return Object.keys(secrets)
      .filter((name) => auditVerdict(found(name), name, secrets[name]!) !== "as declared")
      .sort();
  });
const list = `stat -c '%n %a %U:%G' ${paths.credentials} ${paths.credentials}/* ${paths.credentials}/.[!.]* 2>/dev/null`;
const key = `-----BEGIN OPENSSH PRIVATE KEY-----\n${"a".repeat(70)}\n${"b".repeat(70)}\n-----END OPENSSH PRIVATE KEY-----`;
/** Where the server chooses how short one is: a token of the git host or of Cloudflare, the key of Mattermost's webhook. */
const [token, purge, short] = ["s".repeat(20), "p".repeat(20), `team:${"k".repeat(26)}`];
const purging = serving(rebuilt, { purge: true });
const all = {
  ...plain,
  "site.purge": [purge],
  // As a person pastes it.
  "docs.deploy-key": [`\n${key.replaceAll("\n", "\r\n")}\r\n\n`],
  "docs.status": [token],
  "docs.notify": [short],
};

describe("on a host", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("the layer installs each secret encrypted, and none is in an argv, environment, file or output on the way", () => {
    const lines = [...every, token, purge, short, "a".repeat(70), Buffer.from(key).toString("base64").slice(40, 120)];
    const search = `grep -rlF ${lines.map((word) => `-e '${word}'`).join(" ")} /etc /var/lib /run /tmp /root`;
    const files = Object.keys(all).map((name) => `${paths.credentials}/${name}`);
    const { stdout, stderr } = onHost(`${watched}${applied(purging, all)}${audit(purging)}${list}
      ${search} && echo LEAK
      ${files.map((file) => `systemd-creds decrypt --name=${file.replace(/.*[/.]/, "")} ${file} - | sha256sum`).join("\n")}
      sh -c 'systemd-creds --version >/dev/null; :' ${configured.site.current}
      ${search}`);
    expect(stdout).toContain("applied 0");
    for (const file of files) expect(stdout).toContain(`${file} 600 root:root`);
    const texts = [plain.site!.join("\n"), plain.docs!.join("\n"), purge, key, token, short];
    const sums = texts.map((text) => createHash("sha256").update(`${text}\n`).digest("hex"));
    expect(stdout.match(/^[0-9a-f]{64}(?= {2}-$)/gm)).toEqual(sums);
    expect(stdout).not.toContain("LEAK");
    // The search finds a secret in an argv.
    expect(stdout).toMatch(/\n\/tmp\/seen\/processes\n$/);
    for (const line of lines) expect(stdout + stderr).not.toContain(line);
    expect(judged(stdout, all)).toEqual([[]]);
    expect(judged(stdout, { ...all, site: plain.site!.toReversed() })).toEqual([["site"]]);
  });

  test("after a rotation and after the removal of a hook the audit agrees, and the layer's removal leaves nothing", () => {
    const site = [`new-${configured.site.current}`, configured.site.current];
    const less = { ...example, hooks: [example.hooks[0]!] };
    const { stdout } = onHost(`${applied(example, plain)}${audit(example)}
      chmod 0755 ${paths.credentials}
      ${applied(example, { ...plain, site })}${audit(example)}
      ${applied(less, { site })}${audit(less)}${list}
      (${layer.script}\n${layer.retire}); echo LEFT; ls -A /etc/pushgate /var/lib/pushgate`);
    expect(stdout.match(/applied 0/g)).toHaveLength(3);
    expect(judged(stdout, plain)).toEqual([[], ["site"], ["docs", "site"]]);
    expect(judged(stdout, { ...plain, site })[1]).toEqual([]);
    expect(judged(stdout, { site })[2]).toEqual([]);
    expect(stdout).toContain(`${paths.credentials} 700 root:root\n`);
    // The active unit still loads it: the receiver layer removes the file together with that line of the unit.
    expect(stdout).toContain(`${paths.credentials}/docs`);
    expect(stdout.split("LEFT")[1]).not.toContain("credentials");
  });

  test("the host rejects what is not one good secret for each declared hook, and the former secrets stay", () => {
    const { site, docs } = configured;
    const rows: [input: string, says: string][] = [
      [`other ${"x".repeat(40)}\n`, "not declared"],
      [`site ${site.current}\n`, "no secret arrived for docs"],
      [`site ${"x".repeat(31)}\ndocs ${docs.current}\n`, "the secret of site does not decrypt to more than 32 bytes"],
      ["site\n", "secret that arrived for site is empty"],
    ];
    const bad = rows.map(([input]) => `${applying(example, input)}echo ==== >&2\n`);
    const { stdout, stderr } = onHost(`${applied(example, plain)}${bad.join("")}${audit(example)}`);
    expect(stdout.match(/^applied .*$/gm)).toEqual(["applied 0", ...rows.map(() => "applied 1")]);
    for (const [i, said] of stderr.split("====").slice(0, -1).entries()) expect(said).toContain(rows[i]![1]);
    expect(stderr).not.toContain(site.current);
    expect(judged(stdout, plain)).toEqual([[]]);
  });

  test("the ssh-agents that run are restarted with the key that arrived, and not after a manual change of the unit", () => {
    // The stamp of the builder layer, and a file that it lists.
    const { stdout } = onHost(`mkdir -p /mnt/bin ${paths.units} /var/lib/pushgate/stamps; PATH=/mnt/bin:$PATH
printf '#!/bin/sh\necho "systemctl $*"\n' >/mnt/bin/systemctl; chmod +x /mnt/bin/systemctl
unit=${paths.units}/pushgate-agent@docs.service; echo unit >$unit
echo "file $(sha256sum $unit | cut -d ' ' -f 1) 644 root:root $unit" >/var/lib/pushgate/stamps/builder
exec 2>&1
echo by hand >>$unit; ${applied(purging, all)}echo unit >$unit; ${applied(purging, all)}`);
    // The builder layer restores the file, and then restarts the agent.
    expect(stdout.match(/^systemctl .*$/gm)).toEqual(["systemctl try-restart pushgate-agent@docs.service"]);
  });

  const keyFile = "/var/lib/systemd/credential.secret";
  test.each([
    ["the host's key", keyFile, `head -c 4096 /dev/urandom >/tmp/key; cat /tmp/key >${keyFile}`],
    ["the host's ID", "/etc/machine-id", "tr 0-8 1-9 </etc/machine-id >/tmp/id; cat /tmp/id >/etc/machine-id"],
  ])("the audit decrypts nothing until %s or a credential is another", (_, file, change) => {
    const replaced = `( ${layer.script}\nreplaced )\n`;
    const { stdout } = onHost(`${applied(example, plain)}
      mkdir /tmp/bin; printf '#!/bin/sh\necho DECRYPTED >>/tmp/calls\n' >/tmp/bin/systemd-creds; chmod +x /tmp/bin/*
      PATH=/tmp/bin:$PATH; ${audit(example)} cat /tmp/calls; rm /tmp/bin/systemd-creds
      ${change}; ${replaced}${audit(example)}`);
    expect(stdout).not.toContain("DECRYPTED");
    expect(judged(stdout, plain)).toEqual([[], ["docs", "site"]]);
    expect(stdout).toContain(`\nEND\n${file}\n\nAUDIT\n`);
  });

  test("the audit does not take credentials or sums that are gone for unchanged ones", () => {
    const left = `( ${layer.script}\nreplaced )\n${audit(example)}`;
    const { stdout } = onHost(`${applied(example, plain)}
      mv ${paths.credentials} /tmp/away; ${left} mv /tmp/away ${paths.credentials}
      sed -i '/^#/!d' ${paths.state}/credentials.sha256; ${left} rm ${paths.state}/credentials.sha256; ${left}`);
    expect(stdout.match(/^unknown$/gm)).toHaveLength(3);
    expect(judged(stdout, plain)).toEqual([["docs", "site"], [], ["docs", "site"]]);
  });

  test("the audit reports a credential that was replaced on the host, or is encrypted under another's name", () => {
    const encrypted = (name: string) =>
      `systemd-creds encrypt --with-key=host --name=${name} - ${paths.credentials}/docs`;
    const { stdout } = onHost(`${applied(example, plain)}
      systemd-creds decrypt --name=docs ${paths.credentials}/docs - | ${encrypted("site")}; ${audit(example)}
      echo forged | ${encrypted("docs")}; ${audit(example)}`);
    expect(judged(stdout, plain)).toEqual([["docs"], ["docs"]]);
  });
});
