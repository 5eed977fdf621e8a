/**
 * A daemon takes up all of its files at once, those of a later layer too. Where a hand broke one of those, an earlier
 * layer's reload or restart would fail for it in each `up`, before the layer that mends it had its turn.
 */
import { paths } from "./paths.ts";

/** Shell: true where the files of `layer` are as its last apply installed them, by the record beside its stamp. */
export const asInstalled = (layer: string): string =>
  `sed -n 's/^file \\([0-9a-f]*\\) [0-7]* [^ ]* /\\1  /p' ${paths.stamps}/${layer} 2>/dev/null | sha256sum --check --status 2>/dev/null`;
