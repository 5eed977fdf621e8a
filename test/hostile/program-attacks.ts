/** Attacks on the receiver and the builder as programs, without a host. */
import { spawn } from "node:child_process";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cannotPublish, startPublishing } from "../demo/publish.ts";
import { delivery } from "../fakes/deliveries.ts";
import { example, secrets } from "../fixtures.ts";
import { siteFiles } from "../service/builder/hugo-site.ts";
import { bundled } from "../service/bundles.ts";
import { hostileBodies } from "../service/receiver/hostile-bodies.ts";
import { type Receiver, startReceiver } from "../service/receiver-process.ts";
import { type Attack, exchanger, pick } from "./attack.ts";

/** A flood comes from one of the loopback addresses, and good deliveries from another. */
const [stranger, gitHost] = ["127.0.0.9", "127.0.0.2"];

/** Milliseconds in which a good delivery is answered, whatever another sender does. */
const patience = 5_000;

const goodFor = (hook: "site" | "docs") => delivery({ hook, secret: secrets[hook].current });

/** Why a good delivery was not accepted in time. */
async function fault(receiver: Receiver, hook: "site" | "docs"): Promise<string | undefined> {
  const began = performance.now();
  const { status } = await receiver.deliver(goodFor(hook), gitHost);
  const took = performance.now() - began;
  if (status !== 202) return `a good delivery to ${hook} got ${status}`;
  return took > patience ? `a good delivery to ${hook} took ${took.toFixed(0)} ms` : undefined;
}

const peakMiB = ({ pid }: Receiver): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

/** Puts something that is no delivery and no request at a path. */
const plants: Record<string, (path: string, outside: string) => void> = {
  "an empty folder": (path) => mkdirSync(path),
  "a folder with files": (path) => mkdirSync(`${path}/in/it`, { recursive: true }),
  "a link to a file": (path, outside) => symlinkSync(outside, path),
  "a link to a folder": (path, outside) => symlinkSync(join(outside, ".."), path),
  "a link to itself": (path) => symlinkSync(path, path),
  "a hard link": (path, outside) => linkSync(outside, path),
  "a closed file": (path) => writeFileSync(path, "", { mode: 0 }),
  "many files": (path) => {
    for (let i = 0; i < 2_000; i++) writeFileSync(`${path}-${i}`, "");
  },
};
const untouched = "of another program";

export async function programAttacks() {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-hostile-"));
  const bundle = join(folder, "receiver.cjs");
  await bundled("receiver", bundle);
  const receiver = await startReceiver(bundle, example);
  const outside = join(folder, "outside/file");
  mkdirSync(join(outside, ".."));
  writeFileSync(outside, untouched);
  const wasTouched = () =>
    readFileSync(outside, "utf8") !== untouched || readdirSync(join(outside, "..")).length !== 1
      ? "a file outside of the folder was changed"
      : undefined;

  const attacks: Attack[] = [
    {
      name: "a sender with one hook's secret sends bodies that a parser cannot bear",
      async round(next) {
        const bodies = Object.values(hostileBodies(example.limits.bodyBytes - Math.floor(next() * 100_000)));
        const sent = [0, 1, 2].map(() => receiver.deliver(delivery({ body: pick(next, bodies) }), stranger));
        const slow = await fault(receiver, "docs");
        await Promise.all(sent);
        const [peak, limit] = [peakMiB(receiver), 352]; // MemoryMax= of the unit
        return slow ?? (peak > limit ? `the receiver took ${peak.toFixed(0)} of ${limit} MiB` : undefined);
      },
    },
    {
      name: "a sender without a secret holds connections and sends half bodies",
      async round(next) {
        const connections = Array.from({ length: 300 }, () => {
          const socket = connect({ host: "127.0.0.1", port: receiver.port, localAddress: stranger });
          socket.on("error", () => {});
          const length = Math.floor(next() * example.limits.bodyBytes) + 2;
          const kind = pick(next, ["", "transfer-encoding: chunked\r\n", `content-length: ${length}\r\n`]);
          const head = `POST /webhook/site HTTP/1.1\r\ncontent-type: application/json\r\nx-hub-signature-256: sha256=${"0".repeat(64)}\r\n`;
          socket.write(pick(next, ["", head, `${head}${kind}\r\n`, `${head}${kind}\r\n${"1\r\n{\r\n".repeat(200)}`]));
          return socket;
        });
        const slow = await fault(receiver, pick(next, ["site", "docs"]));
        for (const socket of connections) socket.destroy();
        return slow;
      },
    },
    {
      name: "a member of the spool's group plants files in one hook's folder",
      async round(next) {
        const names = [".x.tmp", "a.json", ".taken", "x"];
        const plant = pick(next, Object.values(plants));
        const name = pick(next, names);
        const planted = await startReceiver(bundle, example, (spool) => {
          if (next() < 0.3) {
            rmSync(join(spool, "docs"), { recursive: true });
            if (next() < 0.5) writeFileSync(join(spool, "docs"), "");
          } else plant(join(spool, "docs", name), outside);
        });
        const slow = await fault(planted, "site");
        const { status } = await planted.deliver(goodFor("docs"), gitHost);
        await planted.stop();
        return slow ?? wasTouched() ?? ([202, 503].includes(status) ? undefined : `the hook's own answer is ${status}`);
      },
    },
  ];

  const reason = cannotPublish();
  if (reason !== undefined) console.log(`soak: no attacks on the builder: ${reason}`);
  const spool = join(folder, "spool");
  mkdirSync(spool);
  const publishing = reason === undefined ? await startPublishing(spool) : undefined;
  let revision = 0;
  if (publishing)
    attacks.push({
      name: "a member of site.writers plants and exchanges files in the folder of requests",
      async round(next) {
        revision += 1;
        publishing.repository.push(siteFiles(revision));
        writeFileSync(join(spool, `${revision}.json`), "{}\n");
        const at = (name: string) => join(publishing.requests, name);
        for (let i = 0; i < 3; i++) {
          const path = at(pick(next, ["x", "y", ".taken", "tick", "rollback-000001-abc"]));
          if (!existsSync(path)) pick(next, Object.values(plants))(path, outside);
        }
        const pairs = [at(".taken"), at("x"), at("x"), at("y"), at("tick"), at(".taken")];
        const member = spawn("perl", ["-e", exchanger, "2", ...pairs], { stdio: "ignore" });
        const ended = new Promise((resolve) => member.once("close", resolve));
        try {
          const { deployed, last } = await publishing.build();
          if (deployed?.commit !== publishing.repository.head()) return `the push was not published: ${last.reason}`;
          return wasTouched();
        } finally {
          await ended;
          for (const name of readdirSync(publishing.requests)) rmSync(at(name), { recursive: true, force: true });
        }
      },
    });

  return {
    attacks,
    async close() {
      await receiver.stop();
      await publishing?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
