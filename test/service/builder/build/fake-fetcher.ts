/** A fake of the fetcher's unit: a connection to its socket has this process fetch, without account, sandbox and limits. */
import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { beginOfBuild } from "../../../../service/builder/build/content.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import { Setback } from "../../../../service/builder/run/setback.ts";
import { type BuilderSettings, exits } from "../../../../service/builder/settings.ts";
import { bringAll } from "../../../../service/fetcher/bring.ts";

export async function startFakeFetcher(settings: BuilderSettings): Promise<Server> {
  const { wanted, fetched } = placesOf(settings);
  const { socket, result } = settings.fetcher;
  const server = createServer(async (connection) => {
    const id = randomBytes(16).toString("hex");
    connection.on("error", () => {}).write(`${beginOfBuild}${id}\n`);
    let code = 0;
    try {
      await bringAll(wanted, fetched, settings);
    } catch (error) {
      connection.write(`${(error as Error).message}\n`);
      code = error instanceof Setback ? exits[error.result] : 1;
    }
    writeFileSync(result, `${id} ${code === 0 ? "success" : "exit-code"} exited ${code}\n`);
    connection.end();
  });
  rmSync(socket, { force: true });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return server;
}
