/** A configuration without faults, changes of it by path, and the faults that it then has. */
import { expect } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { secrets, stackConfig } from "../../fixtures.ts";

export const host = {
  ...{ name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" },
};
export const hook = {
  ...{ name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" },
};
const site = { webRoot: "/var/www/site", content: "/srv/content/site" };

/** By path, such as `hosts[0].name`; undefined leaves a key out. With a colon: a key as the engine passes it. */
export type Changes = Readonly<Record<string, unknown>>;
export const withSite = (change: object): Changes => ({ "hooks[0].site": { ...site, ...change } });

type Given = { readonly isSecret?: (key: string) => boolean; readonly stackFile?: string };
type Part = { [key: string]: Part };

export function parsed(changes: Changes, { isSecret = () => true, stackFile }: Given = {}) {
  const config = { hosts: [host], hooks: [{ ...hook, site }], secrets: { site: secrets.site }, edge: { plan: "pro" } };
  const whole = structuredClone(config) as unknown as Part;
  const passed = Object.entries(changes).filter(([path]) => path.includes(":"));
  for (const [path, value] of Object.entries(changes).filter(([path]) => !path.includes(":"))) {
    const keys = path.match(/[^.[\]]+/g)!;
    const last = keys.pop()!;
    const inner = (i: number) => (/^\d/.test(keys[i + 1] ?? last) ? [] : {}) as Part;
    keys.reduce((part, key, i) => (part[key] ??= inner(i)), whole)[last] = structuredClone(value) as Part;
  }
  const own = Object.entries(whole).map(([key, value]) => [`pushgate:${key}`, value]);
  return parseSettings(stackConfig(Object.fromEntries([...own, ...passed])), isSecret, stackFile);
}

export function faultsOf(changes: Changes, given?: Given): string[] {
  try {
    parsed(changes, given);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults.map(({ key, says }) => `${key} ${says}`);
    throw error;
  }
}

/** The faults begin so, in this order, and none quotes a secret. */
export function expectFaults(changes: Changes, ...wanted: readonly string[]): void {
  const faults = faultsOf(changes);
  expect(faults.map((fault, i) => fault.slice(0, wanted[i]?.length))).toEqual(wanted);
  expect(faults.join()).not.toMatch(/hunter2|1234567/);
}
