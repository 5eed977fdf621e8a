/**
 * What is served, and when it changes: the web root leads to the current release, and what watches for deliveries runs.
 */
import type { Host, Settings } from "../settings.ts";
import type { HostLayer } from "./layer.ts";
import { paths, units } from "./paths.ts";
import { sitesOf } from "./sites.ts";

export function site(settings: Settings, _host: Host): HostLayer {
  const watching = sitesOf(settings).flatMap(({ name }) => [units.buildPath(name), units.reconcileTimer(name)]);
  return {
    name: "site",
    present: true,
    files: [],
    owns: [],
    activate: `for unit in ${watching.join(" ")}; do
  systemctl enable --quiet "$unit"
  systemctl start "$unit"
done`,
    facts: watching.map((unit) => ({
      name: `${unit} is`,
      read: `echo "$(systemctl is-enabled ${unit}) $(systemctl is-active ${unit})"`,
      want: "enabled active",
    })),
    retire: `for path in ${paths.units}/pushgate-build-*.path ${paths.units}/pushgate-reconcile-*.timer; do
  [ ! -e "$path" ] || systemctl disable --quiet --now "\${path##*/}" || exit 1
done`,
    timeout: 120,
  };
}
