/**
 * What is served, and when it changes: the web root of each site is a link to its current release, and what watches for
 * deliveries runs, but not before. A folder that stands there becomes the first release; when the site leaves, the link
 * becomes a folder again (site.sh).
 */
import { readFileSync } from "node:fs";
import type { HostFact, HostLayer } from "../../apply/layer.ts";
import { quote } from "../../apply/manifest.ts";
import type { SeenLayer } from "../../apply/report.ts";
import { type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";

/** One file a site: its web root, and what that was before us. */
const records = `${paths.state}/sites`;

const functions = `sites=${paths.sites}
asks=${paths.asks}
builder=${builderUser}
records=${records}
state=${paths.state}
${readFileSync(new URL("site.sh", import.meta.url), "utf8")}`;

/** Beyond a build's own limit: a first fetch of the whole history, and starting and ending. */
const fetchSeconds = 600;

const watching = (name: string): string[] => [units.buildPath(name), units.reconcileTimer(name)];

/** `serve` sets `fresh`. */
const serve = ({ name, site }: SiteHook): string => {
  const words = [name, site.webRoot, site.content, String(site.limits.seconds + fetchSeconds), ...site.keep];
  return `serve ${words.map(quote).join(" ")}
systemctl enable --quiet ${watching(name).join(" ")}
systemctl start ${watching(name).join(" ")}
# A site that is new here is published now, and not when its timer first asks.
[ "$fresh" = no ] || systemctl start --no-block ${units.reconcile(name)}`;
};

const activate = (sites: readonly SiteHook[]): string => `${functions}
for record in ${records}/*; do
  [ -f "$record" ] || continue
  # shellcheck disable=SC2194
  case " ${sites.map(({ name }) => name).join(" ")} " in *" \${record##*/} "*) ;; *) forget "\${record##*/}" ;; esac
done
${sites.map(serve).join("\n")}`;

const webRootFact = ({ name, site: { webRoot } }: SiteHook): HostFact => ({
  name: `web root ${webRoot}`,
  read: `if [ -L ${webRoot} ]; then
  target=$(readlink ${webRoot})
  if [ "$target" = ${paths.sites}/${name}/current ]; then echo "leads to the current release of ${name}"; else echo "a link to $target, which somebody else made"; fi
elif [ ! -e ${webRoot} ]; then
  echo "absent, to become a link"
elif [ ! -d ${webRoot} ]; then
  echo "neither a folder nor a link"
else
  echo "a folder with $(find ${webRoot} -xdev ! -type d -printf . | wc -c) files, to become the first release"
fi`,
  want: `leads to the current release of ${name}`,
});

/** As the account that reads it, from within: the folders above it are bound away, so only it itself counts. */
const contentFact = ({ site: { content, writers } }: SiteHook): HostFact => ({
  name: `content folder ${content}`,
  read: `if [ ! -d ${content} ]; then
  echo "missing: name the folder that holds the content, pushgate makes none"
elif cd ${content} && setpriv --reuid ${hugoUser} --regid ${hugoUser} ${writers === undefined ? "--clear-groups" : `--groups ${writers}`} test -r . -a -x . 2>/dev/null; then
  echo readable
else
  echo "$(stat -c '%A %U:%G' .), which ${hugoUser} cannot read: chmod o+rX, or give it to the group of \\\`site.writers\\\`"
fi`,
  want: "readable",
});

/**
 * What a machine on which no site of ours is yet says of the folders: what would stop an "up" midway, and what it is
 * about to turn into a release. Later the same facts are drift.
 */
export function siteFitness(settings: Settings, seen: SeenLayer | undefined): { faults: string[]; warnings: string[] } {
  if (seen === undefined || seen.stamp !== undefined) return { faults: [], warnings: [] };
  const faults: string[] = [];
  const warnings: string[] = [];
  for (const [i, { site }] of sitesOf(settings).entries()) {
    const [root, content] = [seen.facts[2 * i]?.output ?? "", seen.facts[2 * i + 1]?.output ?? ""];
    if (content.startsWith("missing")) faults.push(`the content folder ${site.content} is ${content}`);
    if (/^(a link|neither)/.test(root))
      faults.push(`the web root ${site.webRoot} is ${root}: name another, or move it away`);
    if (root.startsWith("a folder"))
      warnings.push(
        `the web root ${site.webRoot} is ${root}; if it holds what neither the build makes nor \`site.keep\` names, \`up\` lists that and changes nothing`,
      );
  }
  return { faults, warnings };
}

export function site(settings: Settings, _host: Host): HostLayer {
  const sites = sitesOf(settings);
  const seconds = sites.reduce((sum, { site }) => sum + site.limits.seconds + fetchSeconds, 0);
  return {
    name: "site",
    present: true,
    files: [],
    // Nothing by glob: what is published can't be rendered again. `retire` gives it back.
    owns: [],
    activate: activate(sites),
    facts: [
      // In this order: `siteFitness` reads them.
      ...sites.flatMap((hook) => [webRootFact(hook), contentFact(hook)]),
      ...sites
        .flatMap(({ name }) => watching(name))
        .map((unit) => ({
          name: `${unit} is`,
          read: `echo "$(systemctl is-enabled ${unit}) $(systemctl is-active ${unit})"`,
          want: "enabled active",
        })),
    ],
    retire: `${functions}
for path in ${paths.units}/pushgate-build-*.path ${paths.units}/pushgate-reconcile-*.timer; do
  [ ! -e "$path" ] || systemctl disable --quiet --now "\${path##*/}" || exit 1
done
for folder in ${records}/* ${paths.sites}/*; do
  [ ! -e "$folder" ] || forget "\${folder##*/}" || exit 1
done
[ ! -d ${paths.sites} ] || rmdir --ignore-fail-on-non-empty ${paths.sites}`,
    // An adoption fetches and builds before it changes anything.
    timeout: 120 + seconds,
  };
}
