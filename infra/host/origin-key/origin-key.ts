/** The host makes key and request. A good key is kept: a new one would not fit the installed certificate. */
import type { Host } from "../../config/settings.ts";
import { originKey } from "../../contract.ts";
import { layerOf, layerScript, modesFact, question } from "../kit.ts";
import { paths } from "../paths.ts";

const requestFile = `${paths.tls}/origin.csr`;

const valuesOf = ({ hostname }: Host) => ({
  ...{ tls: paths.tls, key: originKey, csr: requestFile, hostname },
  // X.509 allows 64 characters in a common name; a longer hostname is in the SAN alone, which clients compare.
  subject: hostname.length <= 64 ? `/CN=${hostname}` : "/CN=pushgate origin",
});

/** The host's request, good or not: no fact of the layer, as what it should print is not known before. */
export const csrQuestion = (host: Host) =>
  question("request", layerScript(import.meta.url, "origin-key", valuesOf(host)).script, [
    { name: "certificate request", read: '[ ! -f "$csr" ] || cat "$csr"' },
  ]);

export const originKeyLayer = (host: Host) =>
  layerOf(import.meta.url, "origin-key", {
    values: valuesOf(host),
    // No globs: an apply removes what they match, and a key cannot be rendered again. `retire` removes both files.
    facts: [
      { name: "origin key and certificate request", read: "state", want: "valid" },
      modesFact("modes of key and request", [
        [originKey, "600", "root:root"],
        [requestFile, "644", "root:root"],
      ]),
    ],
  });
