/**
 * How the rebuild's units are taken up, and what proves it. POSIX sh.
 *
 * Rules: a running build is never stopped for a change of what watches or of hugo's units, as those are read anew by
 * each build; it is restarted where its own unit or settings changed, which costs a build and loses nothing.
 */

import type { HostFact } from "../../apply/layer.ts";
import type { Site } from "../../config/settings.ts";
import { builderUser, paths, units } from "../paths.ts";
import { spoolGroup } from "../receiver/receiver.ts";

export type BuilderScript = {
  /** Of all hooks, with a site or without. */
  readonly hooks: readonly string[];
  readonly sites: readonly (Pick<Site, "hugo" | "writers"> & { readonly name: string })[];
};

const say = `# shellcheck disable=SC2154,SC2194 # $changed is apply.sh's, lists are rendered
say() { printf 'builder: %s\\n' "$*" >&2; }`;

/** Shell functions. A delivery that was taken and not published is a delivery still: it goes back. */
const forget = `
put_back() { # folder of the spool
  [ -d "$1/.taken" ] || return 0
  find "$1/.taken" -mindepth 1 -maxdepth 1 -type f -exec mv -nt "$1" {} +
  rm -rf -- "$1/.taken"
}
# Units of hook $1, whose files may be gone.
stop_units() {
  systemctl stop "pushgate-build-$1.path" "pushgate-reconcile-$1.timer" "pushgate-build-$1.service" \\
    "pushgate-hugo-$1.socket" "pushgate-hugo-$1@*.service" 2>/dev/null || :
  for unit in "pushgate-build-$1.path" "pushgate-build-$1.service" "pushgate-reconcile-$1.timer" "pushgate-reconcile-$1.service"; do
    systemctl reset-failed "$unit" 2>/dev/null || :
  done
  find ${paths.units} -mindepth 2 -maxdepth 2 -type l \\( -name "pushgate-build-$1.path" -o -name "pushgate-reconcile-$1.timer" \\
    -o -name "pushgate-hugo-$1.socket" \\) -printf '%h\\n' -delete | xargs -r rmdir --ignore-fail-on-non-empty || :
}
`;

export const activateBuilder = ({ hooks, sites }: BuilderScript): string => `${say}
${forget}
${sites
  .flatMap(({ writers }) => writers ?? [])
  .map(
    (group) => `getent group ${group} >/dev/null || {
  say "the group ${group}, whose members may ask for a build, is not on this machine. Cure: groupadd ${group}, or leave \\\`writers\\\` out"
  exit 1
}`,
  )
  .join("\n")}
# Sites that are no more, while systemd still knows their units: a timer whose unit went would be failed for ever.
for path in $changed; do
  name=\${path##*/}
  case $name in pushgate-build-*.service) ;; *) continue ;; esac
  [ ! -e "$path" ] || continue
  hook=\${name#pushgate-build-} hook=\${hook%.service}
  stop_units "$hook"
  put_back "${paths.spool}/$hook"
  rm -rf -- "${paths.asks}/$hook"
  case " ${hooks.join(" ")} " in *" $hook "*) ;; *) rmdir -- "${paths.spool}/$hook" 2>/dev/null || : ;; esac
done
systemd-tmpfiles --create ${paths.builderTmpfiles}
systemctl daemon-reload
for path in $changed; do
  [ -e "$path" ] || continue
  name=\${path##*/}
  case $name in
    pushgate-build-*.service | pushgate-build-*.path | pushgate-reconcile-*.timer) systemctl try-restart "$name" ;;
    *.json | *.known_hosts) systemctl try-restart "pushgate-build-\${name%.*}.service" ;;
    pushgate-hugo-*.socket) systemctl stop "$name" ;;
  esac
done
rmdir --ignore-fail-on-non-empty ${paths.units}/pushgate-build-*.d ${paths.units}/pushgate-hugo-*.d ${paths.units}/pushgate-reconcile-*.d 2>/dev/null || :
for unit in ${sites.map(({ name }) => units.hugoSocket(name)).join(" ")}; do
  systemctl enable --quiet "$unit"
  systemctl start "$unit"
done
`;

/** The former files are back, or gone where there were none. */
export const restoreBuilder = `${say}
${forget}
systemctl daemon-reload
for path in $changed; do
  name=\${path##*/}
  case $name in
    pushgate-build-*.service)
      hook=\${name#pushgate-build-} hook=\${hook%.service}
      if [ -e "$path" ]; then systemctl try-restart "$name"; else stop_units "$hook"; fi
      ;;
    pushgate-hugo-*.socket) [ ! -e "$path" ] || systemctl restart "$name" ;;
  esac
done
:
`;

/** After the site's layer, so nothing watches any more; the sites themselves are served from their own folders by now. */
export const retireBuilder = `${say}
${forget}
for path in ${paths.units}/pushgate-build-*.service; do
  [ -e "$path" ] || continue
  hook=\${path##*/pushgate-build-} hook=\${hook%.service}
  stop_units "$hook"
  put_back "${paths.spool}/$hook"
done
rm -rf -- ${paths.asks} ${paths.hugo} || exit 1
[ ! -d ${paths.sites} ] || rmdir --ignore-fail-on-non-empty ${paths.sites}
`;

const hugoFact = ({ path, minimum }: Site["hugo"]): HostFact => ({
  name: `${path} is`,
  read: `found=$(timeout 4 ${path} version 2>/dev/null | sed -n 's/^hugo[^0-9]*v\\{0,1\\}\\([0-9][0-9.]*[0-9]\\).*/\\1/p')
if [ -z "$found" ]; then
  echo "not there, or no hugo; needed is ${minimum} or later: install one, and name it in \\\`site.hugo.path\\\`"
elif [ "$(printf '%s\\n' ${minimum} "$found" | sort -V | head -n 1)" = ${minimum} ]; then
  echo "${minimum} or later"
else
  echo "$found; needed is ${minimum} or later: install a newer one, and name it in \\\`site.hugo.path\\\`"
fi`,
  want: `${minimum} or later`,
});

export function builderFacts({ sites }: BuilderScript): HostFact[] {
  const hugos = new Map(sites.map(({ hugo }) => [`${hugo.path} ${hugo.minimum}`, hugo]));
  const folders = sites.flatMap(({ name, writers }) => [
    writers === undefined
      ? `${paths.asks}/${name} 700 ${builderUser}:${builderUser}`
      : `${paths.asks}/${name} 1730 ${builderUser}:${writers}`,
    ...[paths.asks, paths.spool].map((folder) => `${folder}/${name}/.taken 700 ${builderUser}:${builderUser}`),
    `${paths.sites}/${name} 755 ${builderUser}:${builderUser}`,
    `${paths.sites}/${name}/work 700 ${builderUser}:${builderUser}`,
  ]);
  return [
    ...[...hugos.values()].map(hugoFact),
    ...sites.map(({ name }) => ({
      name: `${units.hugoSocket(name)} is`,
      read: `echo "$(systemctl is-enabled ${units.hugoSocket(name)}) $(systemctl is-active ${units.hugoSocket(name)})"`,
      want: "enabled active",
    })),
    {
      name: "units of the rebuild that systemd read before they were changed",
      read: `# shellcheck disable=SC2046
echo none $(systemctl show -p Id -p NeedDaemonReload ${sites.flatMap(({ name }) => [units.build(name), units.buildPath(name), units.hugoSocket(name), units.reconcileTimer(name)]).join(" ")} | sed -n '/^Id=/h;/^NeedDaemonReload=yes/{g;s/^Id=//p}')`,
      want: "none",
    },
    {
      name: "the rebuild's folders",
      read: `stat -c '%n %a %U:%G' ${folders.map((folder) => folder.split(" ")[0]).join(" ")} ${hugoFolders} 2>/dev/null`,
      want: [...folders, `${paths.hugo} 755 root:root`, `${paths.hugo}/root 755 root:root`].join("\n"),
    },
    {
      name: `group ${spoolGroup}, by which the rebuild takes deliveries`,
      read: `getent group ${spoolGroup} >/dev/null && echo there`,
      want: "there",
    },
  ];
}

const hugoFolders = `${paths.hugo} ${paths.hugo}/root`;
