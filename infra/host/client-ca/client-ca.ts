/**
 * The second of two CAs whose client certificates nginx trusts. A new certificate at Cloudflare comes with a new CA, and
 * Cloudflare presents the former certificate for minutes more. So the proxy layer trusts the new CA before Cloudflare has
 * the certificate, and this layer once Cloudflare presents it. Most of the time both are the same.
 */
import type { HostLayer } from "../../apply/layer.ts";
import { file, layerOf } from "../kit.ts";
import { settledCaPath, trust } from "../proxy/origin-server.ts";

/** `clientCaPem`: PEM of the CA whose client certificate Cloudflare presents. */
export const clientCaLayer = (clientCaPem: string): HostLayer =>
  layerOf(import.meta.url, "client-ca", {
    values: trust,
    files: [
      // With a file that is no certificate nginx would not start, and every site of it would be down.
      file(settledCaPath, `${clientCaPem.trimEnd()}\n`, { check: 'openssl x509 -in "$1" -noout' }),
    ],
    owns: [settledCaPath],
    // The proxy layer's facts show what nginx runs with. It reads the file only when it reloads.
    facts: [],
    shared: ["proxy/trust.sh"],
  });
