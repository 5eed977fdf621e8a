/** The origin certificate. The host rejects one that does not fit the key: nginx does not start with it. */
import { namesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { originKey } from "../../contract.ts";
import { file, layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";

export const originCertificate = `${paths.tls}/origin.pem` as const;

export function originCertificateLayer(settings: Settings, host: Host, pem: string) {
  const hostnames = namesOf(settings, host);
  const values = { certificate: originCertificate, key: originKey, hostnames, nginx: units.nginx };
  return layerOf(import.meta.url, "origin-certificate", {
    values,
    files: [file(originCertificate, `${pem.trimEnd()}\n`, { check: 'check "$1"' })],
    facts: [{ name: "origin certificate", read: "state", want: "valid" }],
  });
}
