/**
 * The receiver's program: built in this process from source at each run, sent as a file whose name holds its hash, and
 * installed under a fixed path. The machine takes it only with that hash, so neither a cut connection nor another file
 * of that name can become the receiver. The megabyte is in no state.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import type { Host, Settings } from "../settings.ts";
import { asInstalled } from "./as-installed.ts";
import type { HostLayer } from "./layer.ts";
import { paths, units } from "./paths.ts";

/**
 * `file`: relative to infra/, where program and plugin run: it is part of a command's input, which must be equal on every
 * machine. `sha256`: hex, of its bytes.
 */
export type Bundle = { readonly file: string; readonly sha256: string };

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The same source gives the same bytes, on any machine and in any folder. */
export function buildReceiver(): Bundle {
  const built = buildSync({
    absWorkingDir: root,
    entryPoints: ["service/receiver/main.ts"],
    bundle: true,
    platform: "node",
    // What Debian 12 has. CommonJS, as Express asks for modules by `require` at run time.
    target: "node18",
    format: "cjs",
    legalComments: "inline",
    logLevel: "silent",
    write: false,
  });
  const bytes = built.outputFiles[0]!.contents;
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const name = `receiver-${sha256.slice(0, 16)}.cjs`;
  mkdirSync(`${root}dist`, { recursive: true });
  // A preview may run beside an up: the file is whole under its name, or not there.
  const scratch = `${root}dist/.${name}.${process.pid}`;
  writeFileSync(scratch, bytes);
  renameSync(scratch, `${root}dist/${name}`);
  return { file: `../dist/${name}`, sha256 };
}

const incoming = (sha256: string): string => `${paths.incoming}/${sha256}.cjs`;
const former = `${paths.incoming}/former.cjs`;

/** Restarts a running receiver, never its sockets, and fails if it does not stay up. */
const restart = `
if systemctl is-active --quiet ${units.receiver} && ${asInstalled("receiver")}; then
  systemctl restart ${units.receiver}
  for _ in 1 2 3 4 5 6; do
    sleep 0.2
    [ "$(systemctl is-active ${units.receiver})" = active ] || {
      echo "bundle: the receiver does not stay up with it. It says:" >&2
      journalctl -u ${units.receiver} -n 10 -o cat --no-pager >&2
      exit 1
    }
  done
fi
`;

const install = (from: string): string => `
  chmod 0644 "${from}"
  cp -p "${from}" ${paths.receiver}.new
  sync ${paths.receiver}.new
  mv -fT ${paths.receiver}.new ${paths.receiver}
`;

export function bundle(_settings: Settings, _host: Host, { sha256 }: Pick<Bundle, "sha256">): HostLayer {
  return {
    name: "bundle",
    present: true,
    files: [],
    // Nothing by glob: what is pruned by it can't be rendered again, only sent. `retire` removes it.
    owns: [],
    activate: `
installed() { sha256sum ${paths.receiver} 2>/dev/null | cut -d ' ' -f 1; }
if [ "$(installed)" != ${sha256} ]; then
  echo "${sha256}  ${incoming(sha256)}" | sha256sum -c --status - || {
    echo "bundle: ${incoming(sha256)} is missing or not what its name says. Cure: pulumi up again, which sends it" >&2
    exit 1
  }
  [ -d ${paths.lib} ] || { mkdir -m 0755 ${paths.lib}; echo ${paths.lib} >>${paths.state}/made; }
  [ ! -f ${paths.receiver} ] || cp -p ${paths.receiver} ${former}
${install(incoming(sha256))}
${restart}
fi
# The one in use stays, so that a hand's change is undone without sending it again.
[ ! -d ${paths.incoming} ] || find ${paths.incoming} -mindepth 1 -maxdepth 1 ! -name ${sha256}.cjs -exec rm -rf {} +
chown root:root ${paths.receiver}
chmod 0644 ${paths.receiver}
`,
    restore: `
set -e
if [ -f ${former} ]; then
${install(former)}
  rm -f ${former}
  ! systemctl is-failed --quiet ${units.receiver} || systemctl reset-failed ${units.receiver}
  [ ! -e ${paths.units}/${units.receiver} ] || systemctl restart ${units.receiver}
fi
`,
    facts: [
      {
        name: `${paths.receiver} is`,
        read: `sha256sum ${paths.receiver} 2>/dev/null | cut -d ' ' -f 1; stat -c '%a %U:%G' ${paths.receiver} 2>/dev/null`,
        want: `${sha256}\n644 root:root`,
      },
    ],
    retire: `rm -rf ${paths.receiver} ${paths.receiver}.new ${paths.incoming}
[ ! -d ${paths.lib} ] || rmdir --ignore-fail-on-non-empty ${paths.lib}`,
    timeout: 60,
  };
}
