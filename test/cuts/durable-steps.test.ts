/** The list of durable steps is complete, so that the soak removes each of them. */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { steps, withoutStep } from "./durable-steps.ts";

const root = new URL("../../", import.meta.url).pathname;

/** Calls, and not the functions that make them. */
const sync = /\b(fsyncSync\(|syncFolder\(|syncFileSystem\(|sync\(\)|sync -- )|committed,loose-object/;

test("each sync of receiver, builder and apply.sh is a durable step, and each step is one sync", () => {
  const left = globSync("{service/receiver,service/builder,infra/apply}/**/*.*", { cwd: root }).flatMap((file) => {
    const whole = readFileSync(root + file, "utf8");
    const text = steps.filter((step) => step.file === file).reduce((rest, step) => withoutStep(step, rest), whole);
    const lines = text.split("\n").filter((line) => sync.test(line) && !/^(async )?function /.test(line));
    return lines.map((line) => `${file}: ${line.trim()}`);
  });
  expect(left).toEqual([]);
});
