/** Describes how an attack ended, in a few words. Also sends attacks from the host itself. */
import { loopback } from "../../infra/networks.ts";
import type { Edge } from "../fakes/cloudflare/dataplane.ts";
import type { Delivery } from "../fakes/deliveries.ts";
import type { Host } from "./lab/host.ts";
import { type Ran, run } from "./lab/process.ts";
import type { Answer } from "./world.ts";

/** "<status> <layer>: <reason>", of Cloudflare the product and its action; "silence" if no connection was made. */
export function summary({ status, servedBy, headers, body, error }: Answer, edge: Edge): string {
  if (status === 0) return error === "no answer" ? "silence" : `broken off: ${error}`;
  const who = servedBy.replace(/^pushgate-/, "");
  if (who === "proxy" || who === "receiver") {
    const { error: fault, status: word } = JSON.parse(body) as { error?: string; status?: string };
    return `${status} ${who}: ${fault ?? word}`;
  }
  if (who !== "") return `${status} ${who}`;
  const event = edge.events.find(({ ray }) => ray === headers["cf-ray"]);
  if (event === undefined) return `${status} ${String(headers.server).split("/")[0]}`;
  // The word "edge" is the layer's name in this text: matrix.ts and the tests compare it.
  if (event.decidedBy === undefined) return `${status} edge`;
  const { source, action } = event.decidedBy;
  return `${status} edge: ${source} ${action}`;
}

/** The summary of each layer's rejection, and of the receiver's acceptance. */
export const answers = {
  blocked: "403 edge: firewallCustom block",
  challenged: "403 edge: sbfm managed_challenge",
  noCertificate: "400 proxy: bad request, or no client certificate of this zone",
  notTheEdge: "403 proxy: the request does not come from Cloudflare",
  noClient:
    "403 proxy: Cloudflare sent no single client address: see whether a transform rule changes CF-Connecting-IP",
  notAllowed: "403 proxy: source not allowed",
  unauthorized: "401 receiver: Unauthorized",
  accepted: "202 receiver: accepted",
} as const;

const otherPort = 8088;

/** Adds another site to the host's nginx, which forwards every request to the receiver's port. */
export async function addOtherSite(host: Host, receiverPort: number): Promise<void> {
  const to = `proxy_pass http://${loopback.v4}:${receiverPort}; proxy_connect_timeout 1s;`;
  const site = `server {\n  listen ${otherPort};\n  location / { ${to} }\n}\n`;
  await host.writeFile("/etc/nginx/conf.d/other.conf", site);
  // On a bare host Debian's nginx is installed and stopped.
  await host.inside("systemctl reload-or-restart nginx.service");
}

/** Sends the delivery from its source address to the site of `addOtherSite`. */
export const throughOtherSite = (host: Host, sent: Delivery): Promise<Answer> => {
  const [command, ...args] = curl(host.address, otherPort, sent, "--interface", sent.source);
  return answerOf(run(command!, args, { stdin: sent.body, check: false }));
};

/** Sends the delivery to a loopback port, from an unprivileged account of the host. */
export const fromTheHost = (host: Host, address: string, port: number, sent: Delivery): Promise<Answer> => {
  const words = curl(address, port, sent).map((word) => `'${word}'`);
  return answerOf(host.inside(`runuser -u guest -- ${words.join(" ")}`, { stdin: sent.body, check: false }));
};

function curl(address: string, port: number, { method, path, host, headers }: Delivery, ...more: string[]): string[] {
  const lines = Object.entries({ host, ...headers, expect: "" }).flatMap(([name, value]) => [
    "-H",
    `${name}: ${value}`,
  ]);
  const at = `http://${address.includes(":") ? `[${address}]` : address}:${port}${path}`;
  const curl = "curl --silent --include --max-time 5".split(" ");
  return [...curl, ...more, "-X", method, ...lines, "--data-binary", "@-", at];
}

/** curl's exit code 28 means that no answer came in time. */
async function answerOf(curled: Promise<Ran>): Promise<Answer> {
  const { code, stdout } = await curled;
  const [head = "", body = ""] = stdout.split("\r\n\r\n");
  const [first = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(lines.map((line) => line.toLowerCase().split(": ", 2)));
  return {
    status: Number(first.split(" ")[1] ?? 0),
    servedBy: headers["x-served-by"] ?? "",
    headers,
    body,
    ...(code !== 0 && { error: code === 28 ? "no answer" : `curl: exit ${code}` }),
  };
}
