/** Chooses the release that a rollback publishes. Pure. */
import { age } from "../format.ts";
import { UserError } from "../stack.ts";
import type { Status } from "./host-report.ts";

/** As the builder names them: it becomes part of a script. */
const releaseId = /^\d{6}-[0-9a-z]+$/;

/** Throws a UserError that lists the releases, and one for a name that no builder makes. */
export function chosen({ releases, deployed }: Status, now: string, wanted: string | undefined): string {
  const current = releases.findIndex(({ id }) => id === deployed?.release);
  const listed = releases.map(({ id, at }, i) => `    ${id}  ${age(at, now)}${i === current ? "  <- current" : ""}`);
  const idOf = (release: Status["releases"][number] | undefined, otherwise: string): string => {
    if (release === undefined) throw new UserError(`${otherwise}. Existing releases:\n${listed.join("\n")}`);
    if (releaseId.test(release.id)) return release.id;
    throw new UserError(`status.json names a release ${release.id}, which no builder makes`);
  };
  if (wanted === undefined) {
    if (deployed === null) throw new UserError("nothing is published yet, so there is no release to go back to");
    return idOf(releases[current + 1], "no release before the current one is kept");
  }
  const commit = /^[0-9a-f]{7,64}$/.test(wanted);
  // Several releases of one commit differ only in their content: the newest.
  const found = releases.find((one) => one.id === wanted || (commit && one.commit?.startsWith(wanted)));
  return idOf(found, `there is no release ${JSON.stringify(wanted)}`);
}
