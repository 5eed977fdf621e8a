/** A fake of the fetcher's unit: a connection to its socket has this process fetch, without account, sandbox and limits. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { beginOfBuild } from "../../../../service/builder/build/content.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import { Setback } from "../../../../service/builder/run/setback.ts";
import { type BuilderSettings, exits } from "../../../../service/builder/settings.ts";
import { bringAll } from "../../../../service/fetcher/bring.ts";

type At = Pick<BuilderSettings["generator"], "socket" | "result">;

/** As from a unit, the output goes back over the connection; its end, which `work` returns, into a file. `id`: of systemd. */
export async function startFakeUnit(
  at: At,
  work: (connection: Socket, id: string) => Promise<string>,
): Promise<Server> {
  const server = createServer(async (connection) => {
    const id = randomBytes(16).toString("hex");
    connection.on("error", () => {});
    writeFileSync(at.result, `${id} ${await work(connection, id)}\n`);
    connection.end();
  });
  rmSync(at.socket, { force: true });
  await once(server.listen(at.socket), "listening");
  return server;
}

export const startFakeFetcher = (settings: BuilderSettings): Promise<Server> =>
  startFakeUnit(settings.fetcher, async (connection, id) => {
    const { wanted, fetched } = placesOf(settings);
    connection.write(`${beginOfBuild}${id}\n`);
    try {
      await bringAll(wanted, fetched, settings);
      return "success exited 0";
    } catch (error) {
      connection.write(`${(error as Error).message}\n`);
      return `exit-code exited ${error instanceof Setback ? exits[error.result] : 1}`;
    }
  });
