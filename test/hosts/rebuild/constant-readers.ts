/**
 * Visitors read every page and every asset while each publish renames all assets: no file is missing or empty. A page
 * stays open longer than a publish takes, so visitors also request assets of the former release.
 */
import { Agent, get } from "node:http";
import { actors } from "../lab/net.ts";
import { linksOf, markedFiles, markOf } from "./marked-site.ts";
import { sitePorts } from "./site.ts";
import { idle, published } from "./status.ts";
import type { Page, Rebuild } from "./world.ts";

export type Read = { readonly reads: number; readonly publishes: number; readonly seconds: number };

const visitors = 8;

/** Reads at least `reads` files, until all `publishes` have ended. Throws with the first missing or empty file. */
export async function soakReads(rebuild: Rebuild, reads: number, publishes: number): Promise<Read> {
  const { host, repositories } = rebuild;
  const agent = new Agent({ keepAlive: true, maxSockets: visitors, localAddress: actors.stranger.v4[0] });
  const read = (path: string): Promise<Page> =>
    new Promise((resolve, reject) => {
      get({ host: host.address, port: sitePorts.site, path, agent }, (answer) => {
        let body = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          body += part;
        });
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
      }).on("error", reject);
    });

  let mark = 1_000;
  await published(host, await rebuild.push(markedFiles(mark)));
  await idle(host);
  const started = performance.now();
  let done = 0;
  let over = false;
  let wrong: string | undefined;
  const check = async (path: string, from: string): Promise<string> => {
    const { status, body } = await read(path);
    done += 1;
    if (status !== 200 || body === "") wrong ??= `${path}, of ${from}: ${status}, ${body.length} characters`;
    return body;
  };
  const loops = Array.from({ length: visitors }, async () => {
    while (wrong === undefined && (!over || done < reads)) {
      const front = await check("/", "the address");
      const links = linksOf(front);
      for (const path of links) {
        const body = await check(path, `push ${markOf(front)}`);
        if (path.endsWith("/")) for (const asset of linksOf(body).slice(0, 5)) await check(asset, path);
      }
    }
  });
  for (let i = 0; i < publishes && wrong === undefined; i++) {
    const commit = repositories.site.push(markedFiles(mark + 1, mark));
    mark += 1;
    if ((await rebuild.deliver(commit)).status !== 202) throw new Error("the delivery was not accepted");
    await published(host, commit, { timeout: 60_000 });
  }
  over = true;
  await Promise.all(loops);
  agent.destroy();
  if (wrong !== undefined) throw new Error(`after ${done} reads: ${wrong}`);
  return { reads: done, publishes, seconds: (performance.now() - started) / 1000 };
}
