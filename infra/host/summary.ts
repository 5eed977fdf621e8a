/** What `up` prints after the last resource: what changed on which host, what the git host must have, what comes next. Pure. */
import { sitesOf, webhookUrls } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";

type Applied = ReadonlyMap<string, readonly string[]>;

const listed = (urls: ReturnType<typeof webhookUrls>): string[] =>
  urls.map(({ hook, host, url }) => `  ${hook} on ${host}: ${url}`);

/** `applied`: the layers that changed, by host. undefined where none did. */
export function summaryText(settings: Settings, applied: Applied): string | undefined {
  const changed = settings.hosts.filter(({ name }) => (applied.get(name) ?? []).length > 0);
  if (changed.length === 0) return undefined;
  const left = changed.filter(({ state }) => state === "absent");
  // Hooks, and their secrets, come and change with this layer.
  const keyed = changed.filter(({ name, state }) => state === "present" && applied.get(name)?.includes("secrets"));
  const urlsOf = (hosts: Settings["hosts"]) =>
    webhookUrls({ ...settings, hosts: hosts.map((host) => ({ ...host, state: "present" })) });
  const next = sitesOf(settings).length > 0 ? "; `npx pushgate status` then shows the build" : "";
  return [
    ...changed.map(({ name, state }) =>
      state === "absent"
        ? `${name}: pushgate is removed. Installed packages stay.`
        : `${name}: applied ${applied.get(name)!.join(", ")}.`,
    ),
    ...(left.length === 0 ? [] : ["Remove these webhooks at the git host:", ...listed(urlsOf(left))]),
    ...(keyed.length === 0
      ? []
      : [
          "The git host needs these webhooks, with content type application/json and the push event alone:",
          ...listed(urlsOf(keyed)),
          `Enter each with the secret that \`npx pushgate hook\` prints. Next, push${next}.`,
        ]),
  ].join("\n");
}
