/**
 * The origin certificate, public, which Cloudflare's Origin CA signs from the request that the origin-key layer made.
 * The host rejects one that does not fit the key: nginx does not start with it, and every site of that nginx is down.
 */
import type { HostLayer } from "../../apply/layer.ts";
import { namesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { originKey } from "../../contract.ts";
import { file, layerScript } from "../kit.ts";
import { paths } from "../paths.ts";

export const originCertificate = `${paths.tls}/origin.pem` as const;

export function certificate(settings: Settings, host: Host, pem: string): HostLayer {
  const script = layerScript(import.meta.url, "origin-certificate", {
    certificate: originCertificate,
    key: originKey,
    hostnames: namesOf(settings, host),
    nginx: paths.nginx,
  });
  return {
    name: "origin-certificate",
    formerly: "certificate",
    script,
    files: [file(originCertificate, pem.endsWith("\n") ? pem : `${pem}\n`, { check: `${script}\ncheck "$1"` })],
    owns: [originCertificate],
    activate: "activate",
    restore: "restore",
    facts: [{ name: "origin certificate", read: "state", want: "valid" }],
    retire: ":",
    timeout: 60,
  };
}
