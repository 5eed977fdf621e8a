/**
 * Applies that break at a step: a program fails, the operator's connections are cut, or the apply is killed. A step is a
 * call of a program that changes something. These programs come first on the PATH of the apply's unit, so that each script
 * runs as it is.
 */
import { paths } from "../../infra/host/paths.ts";
import type { Host } from "./lab/host.ts";

/** What a step does first. */
const breaks = {
  fails: "exit 1",
  // The apply goes on, and no process reads what it prints.
  "loses the connection": "pkill -KILL -f '^sshd(-session)?: root'",
  "is killed": "systemctl kill -s KILL pushgate-apply.service; sleep 5",
} as const;
export type Break = keyof typeof breaks;
export const everyBreak = Object.keys(breaks) as Break[];

const programs =
  "apt-get chmod chown cp gpasswd groupdel ip ln mkdir mv nft rm rmdir sync systemctl systemd-creds systemd-run systemd-sysusers systemd-tmpfiles touch unshare userdel usermod";
const folder = "/run/broken-applies";
const dropIns = "/run/systemd/system/pushgate-apply.service.d";

/** A manual change of all files of a layer, after which each of them works as before. */
export const loosened = (layer: string): string =>
  `sed -n 's/^file [^/]*//p' ${paths.stamps}/${layer} | xargs -r chmod g+w`;

/** From now on each apply breaks at this step, counted from 1 over all of them; at none if it is 0. */
export async function breakApplies(host: Host, step: number, how: Break = "fails"): Promise<void> {
  await host.writeFile(
    `${folder}/program`,
    `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
name=\${0##*/}
case $name,$1 in systemctl,is-* | systemctl,show) exec "$name" "$@" ;; esac
{ printf %.200s "$name $*" | tr '\\n' ' '; echo; } >>${folder}/steps
[ "$(wc -l <${folder}/steps)" != ${step} ] || { ${breaks[how]}; }
exec "$name" "$@"
`,
    "0755",
  );
  await host.writeFile(
    `${dropIns}/broken.conf`,
    `[Service]\nEnvironment=PATH=${folder}:/usr/sbin:/usr/bin:/sbin:/bin\n`,
  );
  await host.inside(`cd ${folder} && for program in ${programs}; do ln -sf program "$program"; done
: >steps && systemctl daemon-reload`);
}

/** Ends that, once no apply runs; returns the steps that were made. */
export async function mendApplies(host: Host): Promise<string[]> {
  await applyEnds(host);
  return (await host.read(`cat ${folder}/steps && rm -r ${folder} ${dropIns} && systemctl daemon-reload`))
    .split("\n")
    .filter(Boolean);
}

/** Waits until no apply runs, as one goes on without its connection. */
export const applyEnds = (host: Host) =>
  host.inside(
    'until [ "$(systemctl show -p ActiveState --value pushgate-apply.service)" = inactive ]; do sleep 0.1; done',
  );
