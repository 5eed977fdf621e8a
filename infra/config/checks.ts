/**
 * What one key of the configuration means for another, as pure functions: each returns faults, never throws, so that a
 * person sees all of them at once.
 */
import { overlapCidr } from "cidr-tools";
import { loopback, networks } from "../networks.ts";
import { published } from "./derived.ts";
import type { Fault } from "./faults.ts";
import type { Config, GitHost } from "./schema.ts";
import { rebuildFaults, servingFaults } from "./site-checks.ts";

/** What the receiver can verify: GitHub's dialect, which Gitea and Forgejo send as well. */
const spoken: readonly GitHost[] = ["forgejo", "gitea", "github"];

/** Which of these were said before, with the place of the first. */
function repeated(entries: readonly { key: string; value: string }[], why: string): Fault[] {
  const first = new Map<string, string>();
  return entries.flatMap(({ key, value }) => {
    const before = first.get(value);
    if (before !== undefined) return [{ key, says: `repeats ${before}: ${why}` }];
    first.set(value, key);
    return [];
  });
}

function hostFaults({ zone, hosts }: Config): Fault[] {
  return hosts.flatMap((host, i) => {
    const faults: Fault[] = [];
    const at = (key: string) => `hosts[${i}].${key}`;
    if (host.hostname === zone) {
      faults.push({
        key: at("hostname"),
        says: "is the zone itself: everything but hooks would be blocked there. Give hooks a name of their own",
      });
    } else if (!host.hostname.endsWith(`.${zone}`)) {
      faults.push({ key: at("hostname"), says: `is not in the zone ${zone}` });
    }
    if (host.originPort === 22)
      faults.push({
        key: at("originPort"),
        says: "is SSH's port: only the edge could log in. Take another, such as 8443",
      });
    if (host.originPort === 80 || host.originPort === 443) {
      faults.push({
        key: at("originPort"),
        says: "is the web's own port, which serves other sites: take one of its own, such as 8443",
      });
    }
    return faults;
  });
}

function hookFaults({ hooks, edge }: Config): Fault[] {
  const faults: Fault[] = [];
  hooks.forEach(({ name, gitHost, sources }, i) => {
    if (!published[gitHost] && name in published) {
      faults.push({ key: `hooks[${i}].name`, says: `is ${name}'s, whose socket has that name: call it otherwise` });
    }
    if (!spoken.includes(gitHost)) {
      faults.push({
        key: `hooks[${i}].gitHost`,
        says: `is ${gitHost}, whose signature the receiver does not verify yet: use one of ${spoken.join(", ")}`,
      });
    }
    if (published[gitHost] && sources) {
      faults.push({
        key: `hooks[${i}].sources`,
        says: `must be left out: ${gitHost} publishes its ranges, and pushgate carries them`,
      });
    }
    if (!published[gitHost] && !sources) {
      faults.push({
        key: `hooks[${i}].sources`,
        says: `is missing: ${gitHost} is self-hosted, so name the addresses it sends from`,
      });
    }
    sources?.forEach((source, j) => {
      if (source.endsWith("/0")) {
        faults.push({
          key: `hooks[${i}].sources[${j}]`,
          says: "admits every address there is: name the git host's own",
        });
      } else if (overlapCidr([loopback.v4range, loopback.v6], source)) {
        faults.push({
          key: `hooks[${i}].sources[${j}]`,
          says: "covers the machine itself: a lost proxy_bind would then open the receiver to every visitor",
        });
      } else if (overlapCidr([...networks.cloudflare.cidrs], source)) {
        faults.push({
          key: `hooks[${i}].sources[${j}]`,
          says: "overlaps the edge's own ranges: name the git host's address, not the proxy's",
        });
      }
    });
  });
  if (edge.botFightMode !== undefined && edge.plan !== "free") {
    faults.push({
      key: "edge.botFightMode",
      says: `is a choice of the free plan only: on ${edge.plan} a rule skips the bot product for hooks alone`,
    });
  }
  return faults;
}

/** Faults of values whose shapes fit. */
export function crossFaults(config: Config): Fault[] {
  const list = (key: string, values: readonly string[]) =>
    values.map((value, i) => ({ key: key.replace("*", String(i)), value }));
  return [
    ...hostFaults(config),
    ...repeated(
      list(
        "hosts[*].name",
        config.hosts.map(({ name }) => name),
      ),
      "resource names come from it",
    ),
    ...repeated(
      list(
        "hosts[*].hostname",
        config.hosts.map(({ hostname }) => hostname),
      ),
      "the git host gets one hook a machine, each with its own name",
    ),
    ...repeated(
      list(
        "hosts[*].ssh",
        config.hosts.map(({ ssh }) => ssh),
      ),
      "one machine would be applied twice at once",
    ),
    ...repeated(
      list(
        "hooks[*].name",
        config.hooks.map(({ name }) => name),
      ),
      "the path /webhook/<name> must be one hook's",
    ),
    ...hookFaults(config),
    ...rebuildFaults(config),
    ...servingFaults(config),
  ];
}
