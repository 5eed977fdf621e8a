/** Which release is meant, and how the builder is asked for it. Pure. */
import { paths, units } from "../infra/host/paths.ts";
import type { Status } from "./look.ts";
import { Refused } from "./stack.ts";
import { age } from "./words.ts";

/** As the builder names them: it goes into a script. */
const releaseId = /^\d{6}-[0-9a-z]+$/;

function checked(release: string): string {
  if (releaseId.test(release)) return release;
  throw new Refused(`status.json names a release ${release}, which is none`);
}

const listed = ({ releases, deployed }: Status, now: string): string =>
  releases
    .map(({ id, at }) => `    ${id}  ${age(at, now)}${id === deployed?.release ? "  <- current" : ""}`)
    .join("\n");

/** Throws Refused with those there are, and where a machine made one up. */
export function chosen(status: Status, now: string, wanted: string | undefined): string {
  const { releases, deployed } = status;
  const there = `there are\n${listed(status, now)}`;
  if (wanted === undefined) {
    if (deployed === null) throw new Refused("nothing is published yet, so there is nothing to go back from");
    const before = releases[releases.findIndex(({ id }) => id === deployed.release) + 1];
    if (before === undefined) throw new Refused(`no release before the current one is kept: ${there}`);
    return checked(before.id);
  }
  const commit = /^[0-9a-f]{7,64}$/.test(wanted);
  const found = releases.filter((one) => one.id === wanted || (commit && one.commit?.startsWith(wanted)));
  if (found.length === 0) throw new Refused(`there is no release ${JSON.stringify(wanted)}: ${there}`);
  // The newest of one commit; only what was built with newer content tells them apart.
  return checked(found[0]!.id);
}

/**
 * The ask is root's, holds its own name and comes by a rename out of a folder that only root may write: otherwise
 * whoever may ask for a build could lay a file of root's there. The builder is started anew, as it may hang in a build;
 * what it had taken is taken again. Answers the status that speaks of this ask, in base64; nothing where none came.
 */
export function rollbackScript(hook: string, release: string, seconds: number): string {
  const ask = `rollback-${release}`;
  return `set -u
export LC_ALL=C
umask 022
asks=${paths.asks}/${hook} status=${paths.sites}/${hook}/status.json
[ -d "$asks" ] || { echo "pushgate: no rebuild of ${hook} on this machine: pulumi up" >&2; exit 1; }
before=$(sha256sum <"$status")
{ printf '%s\\n' '${ask}' >"${paths.asks}/.rollback-${hook}" && mv -fT "${paths.asks}/.rollback-${hook}" "$asks/${ask}"; } ||
  { echo "pushgate: the request can't be written into $asks: df $asks" >&2; exit 1; }
systemctl restart ${units.build(hook)} ||
  { echo "pushgate: ${units.build(hook)} does not start: systemctl status ${units.build(hook)}" >&2; exit 1; }
tries=0
while [ $tries -lt ${seconds * 5} ]; do
  # Two looks in this order: an ask is removed once its status is written.
  there=no
  if [ -e "$asks/${ask}" ] || [ -e "$asks/.taken/${ask}" ]; then there=yes; fi
  if [ "$(sha256sum <"$status")" != "$before" ] && grep -q '"${ask}"' "$status"; then
    base64 <"$status" | tr -d '\\n'
    exit 0
  fi
  [ $there = yes ] || exit 0
  tries=$((tries + 1))
  sleep 0.2
done
echo "pushgate: the builder of ${hook} has not answered in ${seconds} s; the request stays there until the builder runs: journalctl -u ${units.build(hook)}" >&2
exit 1
`;
}
