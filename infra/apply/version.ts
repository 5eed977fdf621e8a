/** The version of pushgate. Each stamp carries that of the apply which left it, and a host in sync keeps its stamps. */
import { readFileSync } from "node:fs";
import { sha256 } from "./manifest.ts";

export const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  readonly version: string;
};

/** A stamp's end fits its layer, so that one that a person wrote, or copied from another layer, is not valid. */
export const sealed = (layer: string, begin: string): string => begin + sha256(`${layer} ${begin}`).slice(0, 4);

/** "0.1.0-0123456789ab"; of a layer that was removed, "absent-0.1.0-0123456789ab". */
const shape = /^(absent-)?(\d{1,5}\.\d{1,5}\.\d{1,5})-[0-9a-f]{12}$/;

/** Untrusted text of a host: undefined where it is no stamp. */
export function readStamp(text = ""): { readonly isTombstone: boolean; readonly version: string } | undefined {
  const [, absent, version] = shape.exec(text) ?? [];
  return version === undefined ? undefined : { isTombstone: absent !== undefined, version };
}

/** Those of the stamps, each once, the earliest first. */
export const versionsOf = (stamps: readonly (string | undefined)[]): string[] =>
  [...new Set(stamps.flatMap((stamp) => readStamp(stamp)?.version ?? []))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
