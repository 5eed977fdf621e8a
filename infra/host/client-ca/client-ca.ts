/**
 * What nginx keeps for Cloudflare until that has changed: the second of two client CAs that it trusts, from when Cloudflare
 * presents a certificate of it (decision 007), and the connections to a former origin port, which end a minute after.
 */
import { file, layerOf } from "../kit.ts";
import { movedTable, settledCa, units } from "../paths.ts";

/** A change of the origin port changes the text that is sent, so that this layer is applied after Cloudflare's rules. */
export const clientCaLayer = (clientCaPem: string, originPort: number) =>
  layerOf(import.meta.url, "client-ca", {
    values: { nginx: units.nginx, table: movedTable, port: originPort },
    files: [
      file(settledCa.path, `${clientCaPem.trimEnd()}\n`, { check: 'openssl x509 -in "$1" -noout' }),
      file(settledCa.line, `ssl_trusted_certificate ${settledCa.path};\n`),
    ],
    facts: [], // The proxy layer's facts show what nginx runs with.
  });
