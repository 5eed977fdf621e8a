/**
 * A fake `ssh` with the same answers for every host: to the probe what a bare Debian answers, to each other command a
 * certificate request, which the layer origin-key prints. The suites in test/hosts prove what a real host does.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bareHost } from "../infra/evaluate.ts";

/** `folder` goes first on PATH. */
export function fakeSsh(folder: string) {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", join(folder, "key")];
  execFileSync("openssl", ["req", "-new", ...key, "-subj", "/CN=x", "-out", join(folder, "csr")], { stdio: "pipe" });
  const probe = join(folder, "probe.json");
  writeFileSync(probe, bareHost());
  // Only the probe's command starts with a timeout; the others apply layers and install programs.
  const script = `#!/bin/sh
for command; do target=$former former=$command; done
[ ! -e "${folder}/$target" ] || { echo "ssh: connect to host $target: Connection refused" >&2; exit 255; }
cat >/dev/null
case $command in
  "exec timeout"*) echo probed >>${folder}/log; [ ! -e ${folder}/slow ] || sleep "$(cat ${folder}/slow)"; echo pushgate: begin; cat ${probe} ;;
  *) echo Welcome; cat ${folder}/csr ;;
esac
`;
  writeFileSync(join(folder, "ssh"), script);
  chmodSync(join(folder, "ssh"), 0o755);
  return {
    /** One line for each probe. */
    log: join(folder, "log"),
    /** From now on a probe takes as many seconds. */
    slow: (seconds: number) => writeFileSync(join(folder, "slow"), `${seconds}`),
    /** From now on this host, such as root@web1.example.org, is down. */
    down: (target: string) => writeFileSync(join(folder, target), ""),
    /** From now on the host has a key and shows its certificate request, as after the first `up`. */
    keyed() {
      const answer = JSON.parse(bareHost()) as { rows: unknown[] };
      const request = Buffer.from(readFileSync(join(folder, "csr"), "utf8")).toString("base64");
      answer.rows.splice(-1, 0, ["fact", "origin-key", 0, 0, "valid"], ["fact64", "request", 0, 0, request]);
      writeFileSync(probe, JSON.stringify(answer));
    },
  };
}
