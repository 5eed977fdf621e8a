/** ship.ts with Pulumi's mocks: layers in, the exact commands out. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as pulumi from "@pulumi/pulumi";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type HostLayer, leaving, stateFolders } from "../../../infra/apply/layer.ts";
import { commonScript, declaredScript, probeScript, sha256 } from "../../../infra/apply/manifest.ts";
import { driftIn } from "../../../infra/contract.ts";
import { exampleHost } from "../../fixtures.ts";
import { Root } from "../host/namespace.ts";
import { setMocks } from "../mocks.ts";
import { seenAsDeclared } from "./shell-host.ts";

type Made = { type: string; name: string; inputs: Record<string, unknown> };
const made: Made[] = [];
const [warned, debugged]: [string[], string[]] = [[], []];

let ship: typeof import("../../../infra/apply/ship.ts");

beforeAll(async () => {
  await setMocks({
    newResource: ({ type, name, inputs }) => {
      made.push({ type, name, inputs });
      return { id: name, state: { ...inputs, stdout: `output of ${name}` } };
    },
  });
  ship = await import("../../../infra/apply/ship.ts");
});

beforeEach(() => {
  for (const list of [made, warned, debugged]) list.length = 0;
  vi.spyOn(pulumi.log, "warn").mockImplementation(async (text) => void warned.push(text));
  vi.spyOn(pulumi.log, "debug").mockImplementation(async (text) => void debugged.push(text));
});

const host = { ...exampleHost, name: "web1", ssh: "root@web1.example.org", sudo: false };
const file = { path: "/etc/pushgate/firewall.nft", text: "table\n", mode: "0644", owner: "root:root" } as const;
const layer: HostLayer = {
  ...{ name: "firewall", files: [file], owns: [file.path], facts: [] },
  ...{ activate: "systemctl restart pushgate-firewall", retire: ":", present: true, timeout: 90 },
};
const inSync = seenAsDeclared(layer);

const until = (name: string): Promise<Made> =>
  vi.waitFor(() => made.find((one) => one.name === name) ?? expect.fail(`${name} is not declared`), 30_000);

test("a probe is one call over SSH, with the probe's text, through sudo where the login is not root, and throws why it failed", async () => {
  const root = new Root();
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv("PATH", `${root.folder}:${process.env.PATH}`);
  const received = (name: string) => readFileSync(root.at(name), "utf8");
  const answer = `echo Welcome; echo pushgate: begin; echo '{"pushgate":1,"rows":[["stamp","firewall","1"],["end"]]}'`;
  root.write("ssh", `#!/bin/sh\ncd ${root.folder}; echo "$*" >argv; cat >stdin\n${answer}\n`, 0o755);
  expect((await ship.probe(host, [layer])).layers.firewall?.stamp).toBe("1");
  expect(received("argv")).toMatch(/ -- root@web1.example.org exec timeout 60 sh -s\n$/);
  expect(received("stdin")).toMatch(/^umask 022\nexport LC_ALL=C PATH=.*\necho 'pushgate: begin'\n/);
  expect(received("stdin").split("\n").slice(3).join("\n")).toBe(probeScript([layer]));
  const sudo = { ...host, sudo: true };
  await ship.probe(sudo, [layer]);
  const words = 'env LC_ALL=C sudo -n env SSH_CONNECTION="$SSH_CONNECTION" timeout 60 sh -s';
  expect(received("argv")).toContain(` exec ${words}\n`);
  expect(ship.applyCommand(sudo, 90)).toMatch(/^exec env LC_ALL=C sudo -n sh -c '[\s\S]*' sh web1 90$/);
  root.write("ssh", "#!/bin/sh\necho pushgate: no state >&2; exit 1\n", 0o755);
  await expect(ship.probe(host, [layer])).rejects.toThrow(/^web1: no state$/);
});

const inInfra = (file: string) => fileURLToPath(new URL(`../../../infra/${file}`, import.meta.url));
const bounded = inInfra("apply/bounded.sh");
const common = `firewall-${sha256(commonScript(layer)).slice(0, 16)}.sh`;

const text = "the program\n";
const bundleOf = (file: string, text: string) => ({ file, sha256: sha256(text), bytes: text.length });
const bundle = bundleOf("../dist/receiver-abc.cjs", text);
const another = bundleOf("../dist/other.cjs", "another");

test.each([
  ["", undefined],
  ["../dist/receiver-abc.cjs ../dist/other.cjs ", [bundle, another]],
])("a host in sync gets %sa script with its own stamp, and no warning", async (files, bundles) => {
  // Its text may be known only later.
  ship.apply(host, pulumi.output(layer), inSync, {}, bundles);
  const { type, inputs } = await until("web1-firewall");
  expect(type).toBe("command:local:Command");
  const send = `cat -- ${files}../dist/${common} - | sh apply/ssh.sh -- root@web1.example.org "$0"`;
  expect(inputs).toEqual({
    interpreter: ["sh", "apply/bounded.sh", "sh", "-c", send],
    create: ship.applyCommand(host, 90, bundles),
    stdin: declaredScript(layer, inSync.stamp!),
    addPreviousOutputInEnv: false,
    logging: "stderr",
  });
  expect(readFileSync(inInfra(`../dist/${common}`), "utf8")).toBe(commonScript(layer));
  expect(warned).toEqual([]);
  expect(ship.appliedLayers().get("web1")).not.toContain("firewall");
});

test("a manual change gives another stamp, and a warning with the diff, and the run applies the layer", async () => {
  const files = { [file.path]: { ...inSync.files[file.path]!, sha256: sha256("x\n"), text: "x\n" } };
  ship.apply(host, layer, { ...inSync, files }, {});
  const { inputs } = await until("web1-firewall");
  expect(inputs.stdin).not.toBe(declaredScript(layer, inSync.stamp!));
  expect(warned).toEqual([
    "web1: firewall: /etc/pushgate/firewall.nft has other contents (- on the host, + declared):\n- x\n+ table\n",
  ]);
  expect(ship.appliedLayers().get("web1")).toContain("firewall");
});

describe("what a host prints reaches Pulumi", () => {
  const printed = (script: string, text = [bounded]) => {
    const options = { input: "in", encoding: "utf8", maxBuffer: 1 << 26 } as const;
    const { stdout, stderr, status } = spawnSync("sh", [...text, "sh", "-c", script], options);
    return [stdout, stderr, status];
  };
  test.each([0, 3])("as it is, with the status: %i", (status) => {
    expect(printed(`cat; echo two >&2; exit ${status}`)).toEqual(["in", "two\n", status]);
  });
  test("as far as 1 MiB of each output, and without the script as a whole", () => {
    const flood = "yes >&2 & yes | head -c 9000000; kill $!";
    const over = ([stdout, stderr]: unknown[]) => [stdout, stderr].map((text) => String(text).length - (1 << 20));
    const [output, error] = over(printed(flood));
    expect([output, error! <= 0]).toEqual([0, true]);
    // Not the flood: on a busy computer one of its programs prints nothing before the other ends.
    const much = "head -c 2000000 /dev/zero >&2; head -c 2000000 /dev/zero";
    expect(Math.min(...over(printed(much, ["-c", '"$@"', "sh"])))).toBeGreaterThan(0);
  });
  test("at once", async () => {
    const running = spawn("sh", [bounded, "sh", "-c", "echo first; exec cat"]);
    expect(String(await once(running.stdout, "data"))).toBe("first\n");
    running.stdin.end();
    expect(await once(running, "exit")).toEqual([0, null]);
  });
});

test("the host stores programs whose hashes are right under those hashes, and runs the script after them", () => {
  expect(run("inactive", [bundle, another], `${text}another`)).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/\/bin\/sh -s\nthe script$/),
    files: [bundle, another].map(({ sha256 }) => `${sha256}.cjs`).sort(),
  });
});
test.each(["the program.", "the"])("the host stores nothing of a damaged program, and runs nothing", (arrived) => {
  const stderr = "pushgate: the program arrived damaged. Run npx pulumi up again.\n";
  expect(run("inactive", [bundle], arrived)).toEqual({ status: 1, stdout: "", stderr, files: [] });
});

test("a layer that leaves declares no file and no fact, and has systemd read its units again", () => {
  const gone = { present: false, files: [], facts: [], activate: "systemctl daemon-reload" };
  expect(leaving({ ...layer, facts: [{ name: "a", read: ":", want: "" }] })).toEqual({ ...layer, ...gone });
});

/** Runs the command with fakes of systemd's programs, and this program before the script. */
function run(state: string, bundles: Parameters<typeof ship.applyCommand>[2] = [], program = "") {
  const root = new Root();
  const fakes = { systemctl: `echo ${state}`, sleep: 'echo "sleep $1"', "systemd-run": 'echo "$*"; cat' };
  for (const [name, body] of Object.entries(fakes)) root.write(name, `#!/bin/sh\n${body}\n`, 0o755);
  const incoming = root.at("incoming");
  const command = ship.applyCommand(host, 90, bundles).replace(stateFolders.incoming, incoming);
  const env = { ...process.env, PATH: `${root.folder}:${process.env.PATH}` };
  const input = `${program}the script`;
  const { status, stdout, stderr } = spawnSync("sh", ["-c", command], { input, encoding: "utf8", env });
  const files = existsSync(incoming) ? readdirSync(incoming).sort() : [];
  return { status, stdout, stderr, files };
}

test("run-in-unit.sh runs standard input in the unit, with the layer's time limit", () => {
  const options = "--quiet --wait --pipe --collect --unit=pushgate-apply";
  const limits = "--property=RuntimeMaxSec=90 --property=TimeoutStopSec=60";
  const stdout = `${options} ${limits} /bin/sh -s\nthe script`;
  expect(run("inactive")).toEqual({ status: 0, stdout, stderr: "", files: [] });
});
test("run-in-unit.sh waits 5 s for another apply to end, and names the host", () => {
  const stderr = expect.stringMatching(/^pushgate: web1: another pulumi up is running on this host\. Wait/);
  expect(run("active")).toEqual({ status: 75, stdout: "sleep 1\n".repeat(5), stderr, files: [] });
});

test("the script of the secrets layer and its output are secret, no output is streamed, and a kept one stays as it is", async () => {
  // The mocks do not show a resource's options.
  const given: pulumi.CustomResourceOptions[] = [];
  const note: pulumi.ResourceTransformation = ({ opts }) => void given.push(opts);
  const parent = new pulumi.ComponentResource("test:index:Parent", "parent", {}, { transformations: [note] });
  const change = { item: "installed", kind: "fact", before: "<{%reset%}>", after: null };
  const drift = [{ ...change, text: "differs: site" }];
  const verdict = { script: "echo hidden", stamp: "", drift, inSync: false };
  ship.applySecrets(host, { ...layer, name: "secrets" }, pulumi.secret(verdict), { parent });
  const { inputs } = await until("web1-secrets");
  expect(given.at(-1)).toMatchObject({ additionalSecretOutputs: ["stdout", "stderr"], retainOnDelete: true });
  // As a mock is given a secret.
  const stdin = { "4dabf18193072939515e22adb298388d": expect.any(String) };
  expect(inputs).toMatchObject({ stdin, logging: "none", addPreviousOutputInEnv: false });
  expect(JSON.stringify([inputs.create, inputs.interpreter])).not.toContain("hidden");
  expect(inputs.interpreter).toContainEqual(expect.stringMatching(/^cat -- \.\.\/dist\/secrets-\w+\.sh - /));
  expect(warned).toEqual(["web1: secrets: differs: site"]);
  expect(debugged.flatMap((text) => driftIn(text) ?? [])).toEqual([{ host: "web1", layer: "secrets", ...change }]);
  expect(debugged.join("")).not.toContain("<{%reset");
  ship.kept("kept", { parent }, true);
  await until("kept");
  expect(given.at(-1)).toMatchObject({ additionalSecretOutputs: ["stdout", "stderr"], ignoreChanges: ["*"] });
});

test("the output of openssl on the operator's computer is secret", async () => {
  const output = ship.runLocally("origin-pull", "openssl genpkey", {});
  const { inputs } = await until("origin-pull");
  const command = { interpreter: ["sh"], create: "-s", stdin: "openssl genpkey" };
  expect(inputs).toEqual({ ...command, logging: "none", addPreviousOutputInEnv: false });
  expect(await pulumi.isSecret(output)).toBe(true);
});

test("nothing runs on a lost host, and the run warns of it", async () => {
  ship.lost(host);
  expect((await until("web1-lost")).inputs).toMatchObject({ interpreter: ["sh", "-c"], create: ":" });
  expect(warned[0]).toMatch(/^web1 is declared lost: it was not probed/);
});
