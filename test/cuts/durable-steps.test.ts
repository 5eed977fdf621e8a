/** The list of durable steps is complete, so that the soak removes each of them. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { steps, withoutStep } from "./durable-steps.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = ["service/receiver", "service/builder", "infra/apply"].flatMap((folder) =>
  readdirSync(root + folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.\w+$/.test(name))
    .map((name) => `${folder}/${name}`),
);

/** Calls, and not the functions that make them. */
const sync = /\b(fsyncSync\(|syncFolder\(|syncFileSystem\(|sync\(\)|sync -- )|committed,loose-object/;

test("each sync of receiver, builder and apply.sh is a durable step, and each step is one sync", () => {
  const left = files.flatMap((file) => {
    const text = steps.filter((step) => step.file === file).reduce((rest, step) => withoutStep(step, rest), read(file));
    return text
      .split("\n")
      .filter((line) => sync.test(line) && !/^(async )?function /.test(line))
      .map((line) => `${file}: ${line.trim()}`);
  });
  expect(left).toEqual([]);
});

const read = (file: string): string => readFileSync(root + file, "utf8");
