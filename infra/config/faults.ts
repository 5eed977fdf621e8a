/** A fault of the configuration, and the one error that carries all of them. */
import * as pulumi from "@pulumi/pulumi";
import type * as v from "valibot";

/** One fault: which key, what is wrong with it, what to write instead. */
export type Fault = { readonly key: string; readonly says: string };

export const faultIf = (wrong: boolean, key: string, says: string): Fault[] => (wrong ? [{ key, says }] : []);

export class SettingsError extends pulumi.RunError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    const lines = faults.map(({ key, says }) => `  ${key.includes(":") ? key : `pushgate:${key}`} ${says}`);
    super(
      `${faults.length} fault${faults.length === 1 ? "" : "s"} in the stack configuration, nothing was changed:\n${lines.join("\n")}`,
    );
    this.faults = faults;
  }
}

/** "hosts[0].address": the path as a person would write it on a command line. */
export function toFault(issue: v.BaseIssue<unknown>): Fault {
  const path = (issue.path ?? []).map(({ key }) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  const key = path.replace(/^\./, "");
  if (issue.type !== "strict_object") return { key, says: issue.message };
  if (issue.expected === "never") return { key, says: "is not a key pushgate knows: check its spelling, or remove it" };
  if (issue.received === "undefined")
    return { key, says: "is missing: README.md lists the keys, Pulumi.prod.yaml shows them" };
  return { key, says: `must be an object, not ${issue.received}` };
}
