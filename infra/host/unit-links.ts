/** What `systemctl enable` made, taken back where the unit's file is gone: `systemctl disable` needs the file. */
import { paths } from "./paths.ts";

/**
 * Shell for a layer's `restore`: units whose files an apply that failed took back are stopped, and the links that enable
 * them go, with folders of links that are empty then. Units whose former file is back are left as they are.
 */
export const forgetMissing = (...names: readonly string[]): string => `# shellcheck disable=SC2043
for unit in ${names.join(" ")}; do
  [ ! -e ${paths.units}/"$unit" ] || continue
  systemctl stop "$unit" 2>/dev/null
  systemctl reset-failed "$unit" 2>/dev/null
  find ${paths.units} -mindepth 2 -maxdepth 2 -type l -name "$unit" -printf '%h\\n' -delete |
    xargs -r rmdir --ignore-fail-on-non-empty
done
systemctl daemon-reload`;
