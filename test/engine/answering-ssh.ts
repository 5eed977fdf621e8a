/**
 * A machine reduced to an `ssh` that always gives the same answers: the probe's as a bare Debian would, and to whatever
 * else it is sent a certificate request, which is what the keys layer prints. What a machine makes of it is the host
 * suite's to prove.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bareHost } from "../infra/evaluate.ts";

export type AnsweringSsh = {
  /** One line for each probe. */
  readonly log: string;
  /** From now on the machine has a key, and shows the request it made: what it looks like after the first `up`. */
  readonly keyed: () => void;
};

/** `folder` goes first on PATH. */
export function answeringSsh(folder: string): AnsweringSsh {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", join(folder, "key")];
  execFileSync("openssl", ["req", "-new", ...key, "-subj", "/CN=x", "-out", join(folder, "csr")], { stdio: "pipe" });
  const probe = join(folder, "probe.json");
  writeFileSync(probe, bareHost());
  // The probe is the one command that starts with a timeout; the rest are applies and bundles.
  const script = `#!/bin/sh
for command; do :; done
cat >/dev/null
case $command in
  "exec timeout"*) echo asked >>${folder}/log; cat ${probe} ;;
  *) cat ${folder}/csr ;;
esac
`;
  writeFileSync(join(folder, "ssh"), script);
  chmodSync(join(folder, "ssh"), 0o755);
  return {
    log: join(folder, "log"),
    keyed() {
      const answer = JSON.parse(bareHost()) as { rows: unknown[] };
      const request = Buffer.from(readFileSync(join(folder, "csr"), "utf8")).toString("base64");
      answer.rows.splice(-1, 0, ["fact64", "request", 0, 0, request]);
      writeFileSync(probe, JSON.stringify(answer));
    },
  };
}
