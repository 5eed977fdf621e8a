/** A program is one file that runs alone; the same source gives the same bytes, and a host takes it only with its hash. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, test } from "vitest";
import { applyScript } from "../../../infra/apply/manifest.ts";
import { paths } from "../../../infra/host/paths.ts";
import { buildProgram, programLayer } from "../../../infra/host/programs/programs.ts";
import { example } from "../../fixtures.ts";
import { noHost, onHost } from "./lab/throwaway-host.ts";

const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
/** A path in the folder where program and plugin run. */
const inInfra = (file: string) => fileURLToPath(new URL(file, new URL("../../../infra/", import.meta.url)));

test("the same source gives the same bytes in every folder", () => {
  const here = process.cwd();
  const first = buildProgram("receiver");
  try {
    process.chdir(tmpdir());
    expect(buildProgram("receiver")).toEqual(first);
  } finally {
    process.chdir(here);
  }
  const bytes = readFileSync(inInfra(first.file));
  expect(sha256(bytes)).toBe(first.sha256);
  expect(first.file).toContain(first.sha256.slice(0, 16));
  expect(bytes.toString()).not.toContain(fileURLToPath(new URL("../../..", import.meta.url)));
});

const nodes = [process.execPath, "/usr/bin/node"].filter((node) => existsSync(node));
test.each(nodes)("the receiver runs alone in an empty folder, on %s, and names the setting that is missing", (node) => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-bundle-"));
  try {
    const run = spawnSync(node, [inInfra(buildProgram("receiver").file)], { cwd: folder, env: {}, encoding: "utf8" });
    expect(run.stderr).toContain("PUSHGATE_SETTINGS is not set");
    expect(run.status).toBe(78);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

describe("on a host", () => {
  beforeEach(({ skip }) => skip(noHost !== undefined, noHost));
  const applied = (text: string) => {
    const layer = programLayer("receiver", example, { sha256: sha256(text) });
    return `( ${applyScript(layer, "0123456789ab")} )\necho "applied $?"\n`;
  };
  const send = (text: string, as = text) =>
    `mkdir -p ${paths.incoming}; printf '${text}' >${paths.incoming}/${sha256(as)}.cjs\n`;
  const look = `cat ${paths.receiver}; echo; stat -c '%a %U:%G' ${paths.receiver}; ls -A ${paths.incoming}\n`;

  test("the layer installs a program, replaces it, and removes the former file", () => {
    const { stdout } = onHost(`${send("one")}${applied("one")}${look}${send("two")}${applied("two")}${look}`);
    expect(stdout).toBe(
      `applied 0\none\n644 root:root\n${sha256("one")}.cjs\napplied 0\ntwo\n644 root:root\n${sha256("two")}.cjs\n`,
    );
  });

  test("the layer undoes a manual change without another transfer", () => {
    const { stdout } = onHost(
      `${send("one")}${applied("one")}echo x >>${paths.receiver}; chmod 777 ${paths.receiver}; ${applied("one")}${look}`,
    );
    expect(stdout).toContain("applied 0\none\n644 root:root");
  });

  test.each([
    ["damaged on the way", send("on", "one")],
    ["that was never sent", ""],
    ["that is another file of that name", send("evil", "one")],
  ])("the host rejects a program %s and keeps the former one", (_name, arrival) => {
    const { stdout, stderr } = onHost(`${send("zero")}${applied("zero")}${arrival}${applied("one")}${look}`);
    expect(stdout).toContain("applied 0\napplied 1\nzero\n644 root:root");
    expect(stderr).toContain("Run `pulumi up` again");
  });

  test("the layer leaves nothing behind when it is removed", () => {
    const { script, retire } = programLayer("receiver", example, { sha256: sha256("one") });
    const { stdout } = onHost(
      `${send("one")}${applied("one")}(${script}\n${retire}); ls -A /usr/local/lib /var/lib/pushgate`,
    );
    expect(stdout).not.toMatch(/receiver|incoming|lib\/pushgate$/m);
  });
});
