/**
 * The programs a machine runs: built in this process from source at each run, sent as a file whose name holds its hash,
 * and installed under a fixed path. The machine takes one only with that hash, so neither a cut connection nor another
 * file of that name can become the receiver or the builder. The megabyte is in no state.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import type { HostLayer } from "../../apply/layer.ts";
import { sitesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { asInstalled } from "../as-installed.ts";
import { paths, units } from "../paths.ts";

/**
 * `file`: relative to infra/, where program and plugin run: it is part of a command's input, which must be equal on every
 * machine. `sha256`: hex, of its bytes.
 */
export type Bundle = { readonly file: string; readonly sha256: string };

/** `sound`: shell, whether "$unit" stays up with a program it was just restarted with. */
const programs = {
  receiver: {
    /** The layer that sends it, and the layer whose units run it. */
    layer: "bundle",
    ranBy: "receiver",
    path: paths.receiver,
    units: (_: Settings): string[] => [units.receiver],
    sound: '[ "$(systemctl is-active "$unit")" = active ]',
  },
  builder: {
    layer: "program",
    ranBy: "builder",
    path: paths.builder,
    units: (settings: Settings): string[] => sitesOf(settings).map(({ name }) => units.build(name)),
    // It ends where nothing is to be built.
    sound: '[ "$(systemctl show -p Result --value "$unit")" = success ]',
  },
} as const;
export type Program = keyof typeof programs;
/** By the layer that sends it; the builder only where a hook has a site. */
export type Bundles = { readonly bundle: Bundle; readonly program?: Bundle };

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** What Debian 12's node runs; CommonJS, as Express asks for modules by `require` at run time. */
export const bundling = { bundle: true, platform: "node", target: "node18", format: "cjs" } as const;

/** The same source gives the same bytes, on any machine and in any folder. */
export function buildProgram(program: Program): Bundle {
  const built = buildSync({
    absWorkingDir: root,
    entryPoints: [`service/${program}/main.ts`],
    ...bundling,
    legalComments: "inline",
    logLevel: "silent",
    write: false,
  });
  const bytes = built.outputFiles[0]!.contents;
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const name = `${program}-${sha256.slice(0, 16)}.cjs`;
  mkdirSync(`${root}dist`, { recursive: true });
  // A preview may run beside an up: the file is whole under its name, or not there.
  const scratch = `${root}dist/.${name}.${process.pid}`;
  writeFileSync(scratch, bytes);
  renameSync(scratch, `${root}dist/${name}`);
  return { file: `../dist/${name}`, sha256 };
}

export const buildPrograms = (settings: Settings): Bundles => ({
  bundle: buildProgram("receiver"),
  ...(sitesOf(settings).length > 0 && { program: buildProgram("builder") }),
});

const incoming = (sha256: string): string => `${paths.incoming}/${sha256}.cjs`;

/** Restarts what of it runs, never a socket or a path, and fails if it does not stay up. */
const restart = (program: Program, names: string): string => `
if ${asInstalled(programs[program].ranBy)}; then
  for unit in ${names}; do
    systemctl is-active --quiet "$unit" || continue
    systemctl restart "$unit"
    for _ in 1 2 3 4 5 6; do
      sleep 0.2
      ${programs[program].sound} || {
        echo "${programs[program].layer}: the ${program} does not stay up with it. It says:" >&2
        journalctl -u "$unit" -n 10 -o cat --no-pager >&2
        exit 1
      }
    done
  done
fi
`;

const install = (path: string, from: string): string => `
  chmod 0644 "${from}"
  cp -p "${from}" ${path}.new
  sync ${path}.new
  mv -fT ${path}.new ${path}
`;

const installed = (path: string): string => `$(sha256sum ${path} 2>/dev/null | cut -d ' ' -f 1)`;

/** What arrived for a program that did not come to be installed, and former ones, of either program. */
const prune = `for file in ${paths.incoming}/* ${paths.incoming}/.[!.]*; do
  case \${file##*/} in
    "${installed(paths.receiver)}.cjs" | "${installed(paths.builder)}.cjs") ;;
    *) rm -rf "$file" ;;
  esac
done`;

export function bundle(
  program: Program,
  settings: Settings,
  _host: Host,
  { sha256 }: Pick<Bundle, "sha256">,
): HostLayer {
  const { layer, path, units: unitsOf } = programs[program];
  const former = `${paths.incoming}/former-${program}.cjs`;
  const names = unitsOf(settings).join(" ");
  return {
    name: layer,
    present: true,
    files: [],
    // Nothing by glob: what is pruned by it can't be rendered again, only sent. `retire` removes it.
    owns: [],
    activate: `
if [ "${installed(path)}" != ${sha256} ]; then
  echo "${sha256}  ${incoming(sha256)}" | sha256sum -c --status - || {
    echo "${layer}: ${incoming(sha256)} is missing or not what its name says. Cure: pulumi up again, which sends it" >&2
    exit 1
  }
  [ -d ${paths.lib} ] || { mkdir -m 0755 ${paths.lib}; echo ${paths.lib} >>${paths.state}/made; }
  [ ! -f ${path} ] || cp -p ${path} ${former}
${install(path, incoming(sha256))}
${names === "" ? "" : restart(program, names)}
fi
# Those in use stay, so that a hand's change is undone without sending them again.
${prune}
chown root:root ${path}
chmod 0644 ${path}
`,
    restore: `
set -e
if [ -f ${former} ]; then
${install(path, former)}
  rm -f ${former}
  for unit in ${names}; do
    ! systemctl is-failed --quiet "$unit" || systemctl reset-failed "$unit"
    [ ! -e ${paths.units}/"$unit" ] || systemctl restart "$unit"
  done
fi
`,
    facts: [
      {
        name: `${path} is`,
        read: `sha256sum ${path} 2>/dev/null | cut -d ' ' -f 1; stat -c '%a %U:%G' ${path} 2>/dev/null`,
        want: `${sha256}\n644 root:root`,
      },
    ],
    retire: `rm -rf ${path} ${path}.new ${former}
${prune}
[ ! -d ${paths.incoming} ] || rmdir --ignore-fail-on-non-empty ${paths.incoming}
[ ! -d ${paths.lib} ] || rmdir --ignore-fail-on-non-empty ${paths.lib}`,
    timeout: 60,
  };
}
