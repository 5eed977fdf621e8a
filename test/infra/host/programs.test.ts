/** A program is one file that runs alone; the same source gives the same bytes, and a host takes it only with its hash. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, test } from "vitest";
import { layerOf } from "../../../infra/host/kit.ts";
import { paths } from "../../../infra/host/paths.ts";
import { buildProgram, buildPrograms, programsOf } from "../../../infra/host/programs/programs.ts";
import { receiverLayer } from "../../../infra/host/receiver/receiver.ts";
import { example, rebuilt } from "../../fixtures.ts";
import { applyScript } from "../apply/shell-host.ts";
import { noHost, onHost, Root } from "./namespace.ts";

const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
const inInfra = (file: string) => fileURLToPath(new URL(file, new URL("../../../infra/", import.meta.url)));

test("the same source gives the same bytes in every folder", async () => {
  const here = process.cwd();
  const first = await buildProgram("receiver");
  try {
    process.chdir(tmpdir());
    expect(await buildProgram("receiver")).toEqual(first);
  } finally {
    process.chdir(here);
  }
  const bytes = readFileSync(inInfra(first.file));
  expect(sha256(bytes)).toBe(first.sha256);
  expect(first.file).toContain(first.sha256.slice(0, 16));
  expect(bytes.toString()).not.toContain(fileURLToPath(new URL("../../..", import.meta.url)));
});

const nodes = [process.execPath, "/usr/bin/node"].filter((node) => existsSync(node));
test.each(nodes)("the receiver runs alone on %s, and names the setting that is missing", async (node) => {
  const { receiver, ...others } = await buildPrograms(example);
  expect(others).toEqual({}); // of sites
  const run = spawnSync(node, [inInfra(receiver!.file)], { cwd: new Root().folder, env: {}, encoding: "utf8" });
  const stderr = expect.stringMatching(/^pushgate-receiver: 2 faults, not started:\n {2}PUSHGATE_SETTINGS is not set/m);
  expect(run).toMatchObject({ status: 78, stderr });
});

test("the builder does not load OpenSSL's module at its start, which a push would wait for", async () => {
  const { builder, fetcher, reporter } = await buildPrograms(rebuilt);
  expect([fetcher, reporter].map((sent) => sent!.file)).toEqual([
    expect.stringMatching(/fetcher/),
    expect.stringMatching(/reporter/),
  ]);
  const bundle = readFileSync(inInfra(builder!.file), "utf8");
  expect(bundle.match(/require\("(node:)?crypto"\)/)).toBe(null);
});

/** An apply of a layer with this text as the receiver's bundle, which fails at its end where `end` does. */
const apply = (text: string, end = 'rm -rf "$incoming"') => {
  const { values, shared } = programsOf(["receiver"], { receiver: { sha256: sha256(text) } });
  const base = new URL("../../../infra/host/client-ca/x", import.meta.url).href;
  const layer = layerOf(base, "receiver", { values, shared, facts: [] });
  const steps = { activate: `install_programs; echo "new $new_program"; ${end}`, reactivate: "restore_programs" };
  return `( ${applyScript({ ...layer, ...steps }, "0.1.0-0123456789ab")} )
echo "applied $?"; cat ${paths.receiver}; echo\n`;
};
const send = (text: string, as = text) =>
  `mkdir -p ${paths.incoming}; printf '${text}' >${paths.incoming}/${sha256(as)}.cjs\n`;

test("a layer that leaves names the paths of its programs, although none is sent", () => {
  const { programs } = programsOf(["builder", "fetcher"], {}).values;
  expect(programs).toEqual([`${paths.builder}:none`, `${paths.fetcher}:none`]);
});

describe("on a host", () => {
  beforeEach(({ skip }) => skip(noHost !== undefined, noHost));
  const look = `stat -c '%a %U:%G' ${paths.receiver}; ls -A ${paths.incoming} 2>/dev/null\n`;

  test("a layer installs a program, replaces it, undoes a manual change, and leaves nothing", () => {
    const { script } = receiverLayer(example, { receiver: { sha256: sha256("two") } });
    const { stdout } = onHost(`${send("one")}${apply("one")}${look}${send("two")}${apply("two")}${look}
echo x >>${paths.receiver}; chmod 777 ${paths.receiver}; ${send("two")}${apply("two")}${look}
chmod 777 ${paths.receiver}; ${send("two")}${apply("two")}${look}
(${script}\nremove_programs); ls -A /usr/local/lib /var/lib/pushgate`);
    const installed = (isNew: string) => (text: string) => [`new ${isNew}`, "applied 0", text, "644 root:root"];
    const all = [...["one", "two", "two"].flatMap(installed("yes")), ...installed("no")("two")];
    expect(stdout.split("\n")).toEqual([...all, "/usr/local/lib:", "", "/var/lib/pushgate:", "made", "stamps", ""]);
  });

  test("the host rejects a program that is damaged, missing or another, and keeps the former one", () => {
    const arrivals = [send("on", "one"), "", send("evil", "one")].map((arrival) => `${arrival}${apply("one")}`);
    const { stdout, stderr } = onHost(`${send("zero")}${apply("zero")}${arrivals.join("")}${look}`);
    expect(stdout).toContain(`applied 0\nzero\n${"applied 1\nzero\n".repeat(3)}644 root:root\n`);
    expect(stderr.split("Run `npx pulumi up` again")).toHaveLength(4);
  });

  test("after a failed apply the former program is back, or none where none was", () => {
    const { stdout } = onHost(`${send("first")}${apply("first", "false")}${send("one")}${apply("one")}
${send("fails")}${apply("fails", "false")}
echo killed >${paths.incoming}/former-receiver.cjs; ${apply("one", "false")}`);
    expect(stdout.split("\n")).toEqual([
      ...["new yes", "applied 1", ""],
      ...["new yes", "applied 0", "one"],
      ...["new yes", "applied 1", "one", "new no", "applied 1", "one", ""],
    ]);
  });
});
