/** A branch has a fault where git itself rejects the name. ../apply/ssh.test.ts has the forms of a host's `ssh`. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { branchFault } from "../../../infra/config/forms.ts";

const right = ["ünï", "a#b", "50%", "新分支", "\u00a0", "\u3000", "\u{1f41f}", "%h", "$(id)", "'", '"', "@"];
const marks = [..." \t\n\u007f~^:?*[]\\@{}./-", "..", "@{", "//", "/.", "/-", ".lock", ".lock/", ".LOCK", "HEAD"];

test("a branch has a fault where git itself rejects the name, and the fault names what", () => {
  for (const branch of [...right, ...marks.flatMap((mark) => [mark, `a${mark}`, `${mark}b`, `a${mark}b`])]) {
    const { status } = spawnSync("git", ["check-ref-format", "--branch", branch]);
    const fault = branchFault(branch);
    expect([branch, fault === undefined]).toEqual([branch, status === 0]);
    const [, found] = /accepts no (".*") there/.exec(fault ?? "") ?? [];
    if (fault !== undefined) expect(branch).toContain(JSON.parse(found!));
  }
});
