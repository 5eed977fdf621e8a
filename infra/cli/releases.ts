/** Chooses the release that a rollback publishes, and makes the script that requests it. Pure. */
import { scriptBeside, variables } from "../apply/shell.ts";
import { paths, units } from "../host/paths.ts";
import { age } from "./format.ts";
import type { Status } from "./host-report.ts";
import { UserError } from "./stack.ts";

/** As the builder names them: it becomes part of a script. */
const releaseId = /^\d{6}-[0-9a-z]+$/;

function checked(release: string): string {
  if (releaseId.test(release)) return release;
  throw new UserError(`status.json names a release ${release}, which no builder makes`);
}

const listed = ({ releases, deployed }: Status, now: string): string =>
  releases
    .map(({ id, at }) => `    ${id}  ${age(at, now)}${id === deployed?.release ? "  <- current" : ""}`)
    .join("\n");

/** Throws a UserError that lists the releases, and one for a name that no builder makes. */
export function chosen(status: Status, now: string, wanted: string | undefined): string {
  const { releases, deployed } = status;
  const existing = `Existing releases:\n${listed(status, now)}`;
  if (wanted === undefined) {
    if (deployed === null) throw new UserError("nothing is published yet, so there is no release to go back to");
    const before = releases[releases.findIndex(({ id }) => id === deployed.release) + 1];
    if (before === undefined) throw new UserError(`no release before the current one is kept. ${existing}`);
    return checked(before.id);
  }
  const commit = /^[0-9a-f]{7,64}$/.test(wanted);
  const found = releases.filter((one) => one.id === wanted || (commit && one.commit?.startsWith(wanted)));
  if (found.length === 0) throw new UserError(`there is no release ${JSON.stringify(wanted)}. ${existing}`);
  // Several releases of one commit differ only in their content: the newest.
  return checked(found[0]!.id);
}

/** `seconds`: how long to wait for the builder. */
export const rollbackScript = (hook: string, release: string, seconds: number): string => {
  const status = `${paths.sites}/${hook}/status.json`;
  const values = {
    hook,
    request: `rollback-${release}`,
    requests: paths.requests,
    status,
    unit: units.build(hook),
    seconds,
  };
  return `${variables(values)}\n${scriptBeside(import.meta.url, "rollback.sh")}`;
};
