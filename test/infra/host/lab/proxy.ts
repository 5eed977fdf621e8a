/**
 * Runs inside a network namespace of its own (OriginLab): a real nginx with the rendered server, a fake receiver that
 * reports each request's source, and requests as Cloudflare sends them. Each line of standard input is a task with an
 * nginx of its own, each line of standard output its answer, or why nginx did not start. nft replaces the socket's
 * allowlist: both drop the SYN.
 */
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { promisify } from "node:util";

/**
 * `as`: which client certificate. `from`: the TCP peer's address. `raw`: the request as bytes on the wire. `name`: which
 * server the TLS handshake names; none by default. `plain`: without TLS. `before`: a shell command that runs first.
 */
export type LabRequest = {
  as: "edge" | "shared" | "none";
  from: string;
  to: string;
  raw: string;
  name?: string;
  plain?: true;
  before?: string;
};
export type Lab = {
  folder: string;
  addresses: string[];
  /** Loopback port -> the ranges that may connect to it. */
  allowed: Record<string, readonly string[]>;
  originPort: number;
};
/** Requests are sent one after the other; a list is sent at once. */
export type LabTask = { config: string; requests: readonly (LabRequest | readonly LabRequest[])[] };
export type LabReply = { status: number; headers: Record<string, string>; body: string };
/** `seen`: what arrived at the receiver, whose answer has as its body how long the body was that arrived whole. */
export type LabResult = { replies: LabReply[][]; log: string[]; seen: string[] };

const { folder, addresses, allowed, originPort }: Lab = JSON.parse(process.argv[2]!);
const seen: string[] = [];
const run = promisify(execFile);
const sh = (command: string) => execFileSync("sh", ["-ec", command], { stdio: ["ignore", "ignore", "inherit"] });

function network(): void {
  sh("ip link set lo up; sysctl -qw net.ipv6.conf.all.disable_ipv6=0");
  for (const address of addresses) sh(`ip addr add ${address}/${address.includes(":") ? 128 : 32} dev lo`);
  // On a real host the socket's mark chooses this table; here only the receiver answers a stranger from loopback.
  sh(`ip rule add pref 90 from 127.0.0.1 iif lo lookup 100; ip route add local default dev lo table 100
      ip -6 rule add pref 90 from ::1 iif lo lookup 100; ip -6 route add local default dev lo table 100`);
  const rules = Object.entries(allowed).flatMap(([port, cidrs]) => [
    ...cidrs.map((cidr) => `tcp dport ${port} ${cidr.includes(":") ? "ip6" : "ip"} saddr ${cidr} accept`),
    `tcp dport ${port} drop`,
  ]);
  execFileSync("nft", ["-f", "-"], {
    input: `table inet lab { chain input { type filter hook input priority 0; policy accept;\n${rules.join("\n")}\n}\n}\n`,
  });
}

/** Answers as the query of the path says: ?slow=milliseconds, ?status=n, ?die. */
async function receivers(): Promise<void> {
  for (const port of Object.keys(allowed)) {
    for (const host of ["127.0.0.1", "::1"]) {
      const server = createServer((request, response) => {
        const { socket, url, httpVersion, rawHeaders } = request;
        seen.push(`${socket.remoteAddress} ${url} ${httpVersion} ${JSON.stringify(rawHeaders)}`);
        let length = 0;
        request.on("data", (chunk: Buffer) => (length += chunk.length));
        request.on("end", async () => {
          const query = new URL(url!, "http://receiver").searchParams;
          if (query.has("die")) return socket.destroy();
          await sleep(Number(query.get("slow") ?? 0));
          const answer = String(length);
          const headers = { "X-Served-By": "pushgate-receiver", "Retry-After": "1", "Content-Length": answer.length };
          response.writeHead(Number(query.get("status") ?? 202), headers).end(answer);
        });
      });
      server.listen({ port: Number(port), host, ipv6Only: true });
      await once(server, "listening");
    }
  }
}

async function send({ as, from, to, raw, name, plain, before }: LabRequest): Promise<LabReply> {
  if (before !== undefined) sh(before);
  const [cert, key] = as === "none" ? [] : ["pem", "key"].map((type) => readFileSync(`${folder}/tls/${as}.${type}`));
  const where = { host: to, port: originPort, localAddress: from };
  const tls = { ...where, rejectUnauthorized: false, cert, key, servername: name };
  const socket = plain ? connect(where) : connectTls(tls as never);
  const chunks: Buffer[] = [];
  socket
    .on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      // nginx waits 5 s for the rest of a body that it rejected; Cloudflare and this client do not.
      const [head = "", body] = Buffer.concat(chunks).toString().split("\r\n\r\n");
      if (body && body.length >= Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Infinity)) socket.destroy();
    })
    .on("error", () => {});
  socket.once(plain ? "connect" : "secureConnect", () => socket.write(raw));
  // `once` of node:events would throw where nginx rejects the handshake.
  await new Promise((closed) => socket.once("close", closed));
  const [head = "", ...body] = Buffer.concat(chunks).toString().split("\r\n\r\n");
  const [statusLine = "", ...headers] = head.split("\r\n");
  const pairs = headers.map((line) => line.split(/:\s*(.*)/, 2) as [string, string]);
  return {
    status: Number(statusLine.split(" ")[1] ?? 0),
    headers: Object.fromEntries(new Headers(pairs)),
    body: body.join("\r\n\r\n"),
  };
}

function startNginx(config: string): void {
  sh(`rm -rf ${folder}/log; mkdir -p ${folder}/log ${folder}/temp`);
  writeFileSync(`${folder}/listen6.conf`, `listen [::]:${originPort} ssl;\n`);
  // The namespace has no other account than root. Each worker keeps connections of its own.
  const alone = config.replace(/worker_processes \d+/, "worker_processes 1").replace("daemon off;", "");
  writeFileSync(`${folder}/nginx.conf`, `user root;\n${alone}`);
  // It returns once the sockets are bound, or throws what nginx reports.
  execFileSync("nginx", ["-e", `${folder}/log/error.log`, "-c", `${folder}/nginx.conf`], { stdio: "pipe" });
}

async function answered(task: LabTask): Promise<LabResult> {
  startNginx(task.config);
  const replies: LabReply[][] = [];
  try {
    for (const step of task.requests) replies.push(await Promise.all([step].flat().map(send)));
  } finally {
    await run("sh", ["-c", `cd ${folder}; kill -QUIT "$(cat nginx.pid)"; while [ -e nginx.pid ]; do sleep 0.01; done`]);
  }
  const logs = readdirSync(`${folder}/log`).filter((name) => name !== "error.log");
  const log = logs.flatMap((name) => readFileSync(`${folder}/log/${name}`, "utf8").split("\n").filter(Boolean));
  return { replies, log, seen: seen.splice(0) };
}

network();
await receivers();
for await (const line of createInterface(process.stdin))
  console.log(JSON.stringify(await answered(JSON.parse(line)).catch(String)));
process.exit(0);
