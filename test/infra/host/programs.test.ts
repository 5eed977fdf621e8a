/** A program is one file that runs alone; the same source gives the same bytes, and a host takes it only with its hash. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { applyScript } from "../../../infra/apply/manifest.ts";
import { paths } from "../../../infra/host/paths.ts";
import { buildProgram, buildPrograms, type Program, programLayer } from "../../../infra/host/programs/programs.ts";
import { example, rebuilt } from "../../fixtures.ts";
import { noHost, onHost } from "./namespace.ts";

const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
/** A path in the folder where program and plugin run. */
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

test.each<[Program, string]>([
  ["receiver", "pushgate-receiver.service"],
  ["builder", "pushgate-build@site.service pushgate-build@docs.service"],
  ["reporter", ""],
])("the layer of the %s's program watches %s", (program, running) => {
  expect(programLayer(program, rebuilt, { sha256: "5e" }).script).toContain(`\nrunning='${running}'\n`);
});

const nodes = [process.execPath, "/usr/bin/node"].filter((node) => existsSync(node));
test.each(nodes)("the receiver runs alone on %s, and names the setting that is missing", async (node) => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-bundle-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const { receiver } = await buildPrograms(example);
  const run = spawnSync(node, [inInfra(receiver!.file)], { cwd: folder, env: {}, encoding: "utf8" });
  expect(run).toMatchObject({ status: 78, stderr: expect.stringContaining("PUSHGATE_SETTINGS is not set") });
});

/** An apply with this text as the receiver's bundle. */
const apply = (text: string, change = (script: string) => script) => {
  const layer = programLayer("receiver", example, { sha256: sha256(text) });
  return `( ${applyScript({ ...layer, script: change(layer.script!) }, "0123456789ab")} )
echo "applied $?"; cat ${paths.receiver}; echo\n`;
};
const send = (text: string, as = text) =>
  `mkdir -p ${paths.incoming}; printf '${text}' >${paths.incoming}/${sha256(as)}.cjs\n`;

describe("on a host", () => {
  beforeEach(({ skip }) => skip(noHost !== undefined, noHost));
  const look = `stat -c '%a %U:%G' ${paths.receiver}; ls -A ${paths.incoming} 2>/dev/null\n`;

  test("the layer installs a program, replaces it, undoes a manual change, and leaves nothing", () => {
    const { script, retire } = programLayer("receiver", example, { sha256: sha256("two") });
    const { stdout } = onHost(`${send("one")}${apply("one")}${look}${send("two")}${apply("two")}${look}
echo x >>${paths.receiver}; chmod 777 ${paths.receiver}; ${send("two")}${apply("two")}${look}
(${script}\n${retire}); ls -A /usr/local/lib /var/lib/pushgate`);
    const installed = (text: string) => ["applied 0", text, "644 root:root"];
    expect(stdout.split("\n")).toEqual([
      ...["one", "two", "two"].flatMap(installed),
      ...["/usr/local/lib:", "", "/var/lib/pushgate:", "made", "stamps", ""],
    ]);
  });

  test("the host rejects a program that is damaged, missing or another, and keeps the former one", () => {
    const { stdout, stderr } = onHost(
      `${send("zero")}${apply("zero")}${[send("on", "one"), "", send("evil", "one")].map((arrival) => `${arrival}${apply("one")}`).join("")}${look}`,
    );
    expect(stdout).toContain(`applied 0\nzero\n${"applied 1\nzero\n".repeat(3)}644 root:root\n`);
    expect(stderr.split("Run `npx pulumi up` again")).toHaveLength(4);
  });
});

describe("a running service", () => {
  beforeEach(({ skip }) => skip(noHost !== undefined, noHost));
  const unit = "pushgate-receiver.service";
  /**
   * systemctl, whose service fails half a second after a start with a program that holds "dies", and at once with
   * "fails"; the stamp of the layer that declares the service, and the file that it lists.
   */
  const installed = `mkdir -p /mnt/bin ${paths.units}; PATH=/mnt/bin:$PATH; echo success >/mnt/state
cat >/mnt/bin/systemctl <<'END'
#!/bin/sh
case $1 in
  restart)
    echo "$*" >>/mnt/calls
    echo success >/mnt/state
    ! grep -q fails ${paths.receiver} || echo failed >/mnt/state
    ! grep -q dies ${paths.receiver} || (sleep 0.5; echo failed >/mnt/state) >/dev/null 2>&1 &
    ;;
  show) cat /mnt/state ;;
  is-failed) grep -qx failed /mnt/state ;;
esac
END
printf '#!/bin/sh\necho its last line' >/mnt/bin/journalctl; chmod +x /mnt/bin/*
file=${paths.units}/${unit}; echo unit >$file
echo "0123456789ab
file $(sha256sum $file | cut -d ' ' -f 1) 644 root:root $file" >/var/lib/pushgate/stamps/receiver
`;
  const taken = (text: string, change?: (script: string) => string) =>
    `${send(text)}${apply(text, change)}cat /mnt/calls /mnt/state; rm -f /mnt/calls\n`;
  const unwatched = (script: string) => {
    const changed = script.replace(/restart_and_watch .* \$active$/m, "systemctl restart $active");
    expect(changed).not.toBe(script);
    return changed;
  };

  test("takes up a new program, and the former one is back if it fails", () => {
    const restart = `restart ${unit}`;
    const { stdout, stderr } = onHost(`${installed}${taken("one")}${taken("it dies")}
${taken("it fails", unwatched)}echo changed >$file\n${taken("it fails again")}`);
    expect(stdout.split("\n")).toEqual([
      ...["applied 0", "one", restart, "success"],
      // The failed start, and the one with the former program.
      ...["applied 1", "one", restart, restart, "success"],
      // Without the look at it the service would stay down.
      ...["applied 0", "it fails", restart, "failed"],
      // After a manual change of the unit it is not restarted: the layer that restores the file has its turn.
      ...["applied 0", "it fails again", "failed", ""],
    ]);
    const says = `receiver-program: ${unit} does not stay up. Its last journal lines:\nits last line\n`;
    expect(stderr.split(says)).toHaveLength(2);
  });
});
