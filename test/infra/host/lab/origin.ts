/**
 * A real nginx on the origin port for a test file: a host's certificates, the rendered servers, and requests of
 * Cloudflare, its other customers or strangers. lab/proxy.ts runs that nginx in a network namespace of its own.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { sourceSets } from "../../../../infra/config/derived.ts";
import { nginxFolders } from "../../../../infra/host/paths.ts";
import { credential, renderProxy } from "../../../../infra/host/proxy/proxy.ts";
import { example, exampleHost } from "../../../fixtures.ts";
import { missing, Root } from "../namespace.ts";
import type { Lab, LabRequest, LabResult, LabTask } from "./proxy.ts";

export const noNginx = missing("nginx", "openssl", "nft", "ip", "unshare");

export const edge = "173.245.48.5";
export const edge6 = "2606:4700::5";
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

export class OriginLab extends Root {
  private readonly process: ChildProcess | undefined;
  private readonly answers: AsyncIterator<string> | undefined;

  constructor() {
    super();
    if (noNginx !== undefined) return;
    execFileSync("bash", ["-ec", certificates], { cwd: this.folder, stdio: "pipe" });
    const lab: Lab = {
      folder: this.folder,
      addresses: [edge, edge6, exampleHost.address, origin6, stranger],
      allowed: Object.fromEntries(sourceSets(example).map(({ port, cidrs }) => [port, cidrs])),
      originPort: exampleHost.originPort,
    };
    const program = new URL("proxy.ts", import.meta.url).pathname;
    const inside = [process.execPath, program, JSON.stringify(lab)];
    this.process = spawn("unshare", ["--user", "--map-root-user", "--net", ...inside], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.answers = createInterface(this.process.stdout!)[Symbol.asyncIterator]();
  }

  /** By an nginx of its own. Throws where nginx rejects the configuration. */
  async send(requests: LabTask["requests"], config = renderProxy(example, exampleHost)): Promise<LabResult> {
    const moved = config
      .replaceAll("/etc/pushgate/tls", `${this.folder}/tls`)
      .replaceAll(credential.replace(/\/[^/]*$/, ""), `${this.folder}/tls`)
      .replaceAll(nginxFolders.logs, `${this.folder}/log`)
      .replaceAll(nginxFolders.run, this.folder)
      .replaceAll(nginxFolders.cache, `${this.folder}/temp`)
      .replaceAll(/\/var\/lib\/pushgate-sites\/[^/]*/g, `${this.folder}/www`);
    const task: LabTask = { config: moved, requests };
    this.process!.stdin!.write(`${JSON.stringify(task)}\n`);
    const { value, done } = await this.answers!.next();
    const result: LabResult | string = done ? "the lab ended" : JSON.parse(value);
    if (typeof result === "string") throw new Error(result);
    return result;
  }

  override remove(): void {
    this.process?.kill();
    super.remove();
  }
}

/** As Cloudflare sends it: the request line, the headers' lines and the body. */
export const fromEdge = (first: string, lines: readonly string[], body = "", more: Partial<LabRequest> = {}) =>
  ({
    as: "edge",
    from: edge,
    to: exampleHost.address,
    raw: [first, ...lines, "", body].join("\r\n"),
    ...more,
  }) satisfies LabRequest;
