/** What `up` prints after the last resource: what changed on which host, what the git host must have, what comes next. Pure. */
import { sitesOf, webhookUrls } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";

/** `applied`: the layers that changed, by host. undefined where none did. */
export function summaryText(settings: Settings, applied: ReadonlyMap<string, readonly string[]>): string | undefined {
  const changed = settings.hosts.filter(({ name }) => (applied.get(name) ?? []).length > 0);
  if (changed.length === 0) return undefined;
  const left = changed.filter(({ state }) => state === "absent");
  // Hooks, and their secrets, come and change with this layer.
  const keyed = changed.filter(({ name, state }) => state === "present" && applied.get(name)?.includes("secrets"));
  const urlsOf = (hosts: Settings["hosts"]) =>
    webhookUrls({ ...settings, hosts: hosts.map((host) => ({ ...host, state: "present" })) }).map(
      ({ hook, host, url }) => `  ${hook} on ${host}: ${url}`,
    );
  const section = (hosts: Settings["hosts"], head: string, ...more: string[]) =>
    hosts.length === 0 ? [] : [head, ...urlsOf(hosts), ...more];
  const next = sitesOf(settings).length > 0 ? "; `npx pushgate status` then shows the build" : "";
  return [
    ...changed.map(({ name, state }) =>
      state === "absent"
        ? `${name}: pushgate is removed. Installed packages stay.`
        : `${name}: applied ${applied.get(name)!.join(", ")}.`,
    ),
    ...section(left, "Remove these webhooks at the git host:"),
    ...section(
      keyed,
      "The git host needs these webhooks, with content type application/json and the push event alone:",
      `Enter each with the secret that \`npx pushgate hook\` prints. Next, push${next}.`,
    ),
  ].join("\n");
}
