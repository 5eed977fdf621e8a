/**
 * The second of two CAs whose client certificates nginx trusts. A new certificate at Cloudflare comes with a new CA, and
 * Cloudflare presents the former certificate for minutes more. So the proxy layer trusts the new CA before Cloudflare has
 * the certificate, and this layer once Cloudflare presents it. Most of the time both are the same.
 */
import { file, layerOf } from "../kit.ts";
import { units } from "../paths.ts";
import { settledCa } from "../proxy/places.ts";

export const clientCaLayer = (clientCaPem: string) =>
  layerOf(import.meta.url, "client-ca", {
    values: { nginx: units.nginx },
    files: [
      file(settledCa.path, `${clientCaPem.trimEnd()}\n`, { check: 'openssl x509 -in "$1" -noout' }),
      file(settledCa.line, `ssl_trusted_certificate ${settledCa.path};\n`),
    ],
    // The proxy layer's facts show what nginx runs with. It reads the files only when it reloads.
    facts: [],
  });
