/**
 * The hostnames of the zone that lead to an origin port of ours. What passes the edge is asked of hooks' alone; how the
 * edge contacts the machine is said for all.
 */

import { servedSites } from "./served-sites.ts";
import type { Settings } from "./settings.ts";

type Declared = Pick<Settings, "hosts" | "hooks">;

/** Hostnames that hooks live on, sorted; an absent host's is nobody's any more. */
export const hostnames = ({ hosts }: Pick<Settings, "hosts">): string[] =>
  hosts
    .filter(({ state }) => state !== "absent")
    .map(({ hostname }) => hostname)
    .sort();

/** Hostnames of published sites, sorted; none where no machine is left to serve them. */
export const siteHostnames = ({ hosts, hooks }: Declared): string[] =>
  hostnames({ hosts }).length === 0
    ? []
    : servedSites({ hooks })
        .map(({ hostname }) => hostname)
        .sort();

/** Both, each once, hooks' first. */
export const allHostnames = (settings: Declared): string[] => [...hostnames(settings), ...siteHostnames(settings)];

/** `{"a" "b"}`; hostnames and hook names hold nothing that would need escaping. */
export const set = (values: readonly string[]): string => `{${values.map((value) => `"${value}"`).join(" ")}}`;
