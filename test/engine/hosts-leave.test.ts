/** A host that is removed from the configuration, and a destroy, while pushgate is still on it: both are rejected. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { stackFile } from "../fixtures.ts";
import { patience, type Run } from "./engine.ts";
import { type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let w: ProgramStack;
const [first] = stackFile["pushgate:hosts"];
const second = {
  ...first!,
  ...{ name: "web2", ssh: "root@web2.example.org", hostname: "hooks2.example.org" },
  ...{ address: "203.0.113.11", address6: "2001:db8::11" },
};
const declare = (...hosts: object[]) => w.stack.configure({ "pushgate:hosts": hosts });
const records = () => w.api.zone.dns_records.map(({ name }) => name);
const rejected = (run: Run, reason: RegExp): void => {
  expect(run.code).not.toBe(0);
  expect(run.stdout).toMatch(reason);
};
const forgotten = /web2 would keep all of pushgate\. .* `state: absent`, .* `state: lost`/;

beforeAll(async () => {
  w = await programStack();
  w.ssh.keyed();
  declare(first!, second);
  succeeded(await w.stack.up());
}, patience);
afterAll(() => w?.close());
test(
  "a host removed from the list is an error in preview and up, which name both ways out, and nothing is deleted",
  async () => {
    declare(first!);
    rejected(await w.stack.preview(), forgotten);
    // Without its preview: what is deleted comes after what is changed, and the lock is deleted first.
    rejected(await w.stack.up(), forgotten);
    expect(records()).toContain("hooks2.example.org");
  },
  patience,
);

test(
  "destroy --run-program is rejected while a host is present, and names it",
  async () => {
    declare(first!, second);
    const before = structuredClone(w.api.zone);
    rejected(await w.stack.destroy("--run-program"), /web[12] would keep all of pushgate\. .* `state: absent`/);
    expect(w.api.zone).toStrictEqual(before);
  },
  patience,
);

test(
  "after `state: absent` the host can be removed from the list, and a lost one too",
  async () => {
    declare(first!, { ...second, state: "absent" });
    succeeded(await w.stack.up());
    declare(first!);
    succeeded(await w.stack.up());
    expect(records()).not.toContain("hooks2.example.org");
    succeeded(await w.stack.preview());
    declare(first!, second);
    succeeded(await w.stack.up());
    declare(first!, { ...second, state: "lost" });
    succeeded(await w.stack.up());
    declare(first!);
    succeeded(await w.stack.up());
  },
  patience,
);
