/**
 * A fake git host over https: bare repositories in a folder, served by git's own `http-backend` behind TLS, as real git
 * hosts do. It needs git and no root. A test can switch on faults while it runs.
 *
 *   const host = await startGitHost();
 *   const commit = host.repository("site").push({ "layouts/index.html": "hello" });
 *   spawn("git", ["-c", `http.sslCAInfo=${host.caFile}`, "clone", host.url("site")]);
 */
import { execFileSync, spawn } from "node:child_process";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { Repository } from "./git-repository.ts";
import { type ServerOptions, startHttpsServer, trickle } from "./https-server.ts";
import { LfsApi } from "./lfs-api.ts";
import { StatusApi } from "./status-api.ts";
import { WebhookApi } from "./webhook-api.ts";

export type Faults = {
  /** The status of every answer: 404 for a deleted repository, 401 for one that has become private. */
  status?: number;
  /** Milliseconds before each answer. */
  delay?: number;
  /** A fetch gets 20 bytes a second, without end. */
  trickles?: boolean;
};

export type GitHost = Awaited<ReturnType<typeof startGitHost>>;

/** Its folder holds `<name>.git`. */
export async function startGitHost(options: ServerOptions = {}) {
  // The folder of git's programs differs between distributions.
  const program = join(execFileSync("git", ["--exec-path"]).toString().trim(), "git-http-backend");
  /** A test changes these while the git host runs. */
  const faults: Faults = {};
  /** The headers by which clients have logged in to git. */
  const logins: string[] = [];
  /** Other files that it serves, by their paths. */
  const files = new Map<string, Buffer>();
  const lfs = new LfsApi();
  /** Its APIs for the results of builds and for webhooks, of every form. */
  const [status, webhooks] = [new StatusApi(), new WebhookApi()];
  const repositories = new Map<string, Repository>();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (status.isOwn(request)) return status.answer(request, response);
    if (webhooks.isOwn(request)) return webhooks.answer(request, response);
    if (request.headers.authorization) logins.push(request.headers.authorization);
    if (faults.delay) await new Promise((resolve) => setTimeout(resolve, faults.delay));
    if (faults.status === 401) response.setHeader("www-authenticate", 'Basic realm="git"');
    if (faults.status) return void response.writeHead(faults.status).end();
    if (lfs.isOwn(request)) return lfs.answer(request, response);
    if (faults.trickles && request.method === "POST") {
      // One line of git's protocol of 64 KiB.
      response.writeHead(200, { "content-type": "application/x-git-upload-pack-result" }).write("fff0");
      return trickle(response);
    }
    const { pathname } = new URL(request.url ?? "/", "https://localhost");
    const file = files.get(pathname);
    if (file !== undefined || pathname.endsWith(".tar.gz"))
      return void response.writeHead(file === undefined ? 404 : 200).end(file);
    cgi(program, server.folder, request, response);
  }

  const server = await startHttpsServer(answer, { addresses: ["127.0.0.1"], ...options });

  return {
    ...{ ...server, faults, files, lfs, logins, status, webhooks },
    url: (repository: string) => `${server.origin}/${repository}.git`,
    /** Creates the repository at the first call. */
    repository(named: string, ...how: [format?: "sha1" | "sha256"]) {
      const made = repositories.get(named) ?? new Repository(join(server.folder, `${named}.git`), ...how);
      repositories.set(named, made);
      return made;
    },
  };
}

/** CGI (RFC 3875), as far as http-backend uses it. */
function cgi(program: string, root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? "/", "https://localhost");
  const { "content-type": type, "content-length": length, "content-encoding": encoding } = request.headers;
  const child = spawn(program, [], {
    stdio: ["pipe", "pipe", "ignore"],
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: type,
      CONTENT_LENGTH: length,
      HTTP_CONTENT_ENCODING: encoding,
      // The files may belong to another account than the one that runs http-backend.
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "safe.directory",
      GIT_CONFIG_VALUE_0: "*",
    },
  });
  request.pipe(child.stdin.on("error", () => {}));
  let head = Buffer.alloc(0);
  child.stdout.on("data", (chunk: Buffer) => {
    if (response.headersSent) return void response.write(chunk);
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const fields = head.subarray(0, end).toString().split("\r\n");
    const headers = Object.fromEntries(fields.map((line) => line.split(/: (.*)/, 2) as [string, string]));
    const { Status, ...others } = headers;
    response.writeHead(Number.parseInt(Status ?? "200", 10), others).write(head.subarray(end + 4));
  });
  child.stdout.on("end", () => response.end());
  response.on("close", () => child.kill());
}
