/**
 * A real nginx on the origin port for a test file: a host's certificates, the rendered servers, and requests of
 * Cloudflare, its other customers or strangers. lab/proxy.ts runs that nginx in a network namespace of its own.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sourceSets } from "../../../../infra/config/derived.ts";
import type { Settings } from "../../../../infra/config/settings.ts";
import { nginxFolders } from "../../../../infra/host/paths.ts";
import { credential, renderProxy } from "../../../../infra/host/proxy/proxy.ts";
import { v4, v6 } from "../../../../infra/networks.ts";
import { example, exampleHost } from "../../../fixtures.ts";
import { missing } from "../namespace.ts";
import type { LabRequest, LabResult, LabTask } from "./proxy.ts";

const namespace = ["--user", "--map-root-user", "--net"];

/** Why no nginx can run here, or undefined. */
export const noNginx = missing("nginx", "openssl", "nft", "ip", "unshare");

export const edge = "173.245.48.5";
export const edge6 = "2606:4700::5";
export const origin = exampleHost.address;
export const origin6 = exampleHost.address6!;
export const stranger = "192.0.2.9";

const certificates = `
mkdir tls && cd tls
pair() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout $1.key -out $1.pem; }
pair origin; pair origin-pull-ca; pair shared-ca
leaf() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout $1.key -out $1.csr
  openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -days 2 -out $1.pem
}
leaf edge origin-pull-ca; leaf shared shared-ca`;

export type LabOptions = { config?: string; settings?: Settings; ipv6?: boolean };

export class OriginLab {
  readonly folder = mkdtempSync(join(tmpdir(), "pushgate-origin-"));

  constructor() {
    if (noNginx === undefined) execFileSync("bash", ["-ec", certificates], { cwd: this.folder, stdio: "pipe" });
  }

  /** The place of a host's path in this folder. */
  at(path: string): string {
    return path
      .replaceAll("/etc/pushgate/tls", `${this.folder}/tls`)
      .replaceAll(credential.replace(/\/[^/]*$/, ""), `${this.folder}/tls`)
      .replaceAll(nginxFolders.logs, `${this.folder}/log`)
      .replaceAll(nginxFolders.run, this.folder)
      .replaceAll(nginxFolders.cache, `${this.folder}/temp`)
      .replaceAll(/\/var\/lib\/pushgate-sites\/[^/]*/g, `${this.folder}/www`);
  }

  send(requests: LabTask["requests"], options?: LabOptions): LabResult {
    return this.sendEach([[requests, options]])[0]!;
  }

  /** By one nginx after the other. `config` replaces the rendered configuration; the first `settings` are for all. */
  sendEach(
    tasks: readonly (readonly [requests: LabTask["requests"], options?: LabOptions | undefined])[],
  ): LabResult[] {
    const settings = tasks[0]?.[1]?.settings ?? example;
    const all: LabTask = {
      folder: this.folder,
      addresses: [edge, edge6, origin, origin6, stranger],
      allowed: Object.fromEntries(
        sourceSets(settings).map(({ port, cidrs }) => [port, { v4: v4(cidrs), v6: v6(cidrs) }]),
      ),
      originPort: exampleHost.originPort,
      ...{ config: "", listen6: "", requests: [] },
    };
    const input = tasks.map(
      ([requests, { config, ipv6 = true } = {}]): LabTask => ({
        ...{ ...all, requests },
        config: this.at(config ?? renderProxy(settings, exampleHost)),
        listen6: ipv6 ? `listen [::]:${exampleHost.originPort} ssl;\n` : "",
      }),
    );
    const program = new URL("proxy.ts", import.meta.url).pathname;
    const run = spawnSync("unshare", [...namespace, process.execPath, program], {
      input: JSON.stringify(input),
      encoding: "utf8",
      maxBuffer: 64 << 20,
      timeout: 90_000,
    });
    if (run.status !== 0) throw new Error(`the lab failed: ${run.stderr}`);
    return JSON.parse(run.stdout) as LabResult[];
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const fromEdge = (rest: Partial<LabRequest> & { raw: string }): LabRequest => ({
  as: "edge",
  from: edge,
  to: origin,
  ...rest,
});
