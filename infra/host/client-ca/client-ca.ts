/** The second of two client CAs that nginx trusts, from when Cloudflare presents a certificate of it (decision 007). */
import { file, layerOf } from "../kit.ts";
import { settledCa, units } from "../paths.ts";

export const clientCaLayer = (clientCaPem: string) =>
  layerOf(import.meta.url, "client-ca", {
    values: { nginx: units.nginx },
    files: [
      file(settledCa.path, `${clientCaPem.trimEnd()}\n`, { check: 'openssl x509 -in "$1" -noout' }),
      file(settledCa.line, `ssl_trusted_certificate ${settledCa.path};\n`),
    ],
    facts: [], // The proxy layer's facts show what nginx runs with.
  });
