/**
 * `npm run bench -- --host`: a delivery's way through a booted host, from the TCP connection to the answer: TLS with the
 * client certificate, nginx, the transparent bind, the allowlisted socket, the receiver. Beside it the same receiver
 * behind a server of the same nginx as most guides write one: TLS without a client certificate, and `proxy_pass`.
 * nginx and the receiver have one core, the client has the other. nginx counts no address of GitHub's ranges, so its
 * rate is not what is measured.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { connect, createSecureContext } from "node:tls";
import { originKey } from "../../infra/contract.ts";
import { originCertificate } from "../../infra/host/origin-certificate/origin-certificate.ts";
import { paths, units } from "../../infra/host/paths.ts";
import { places, receiverPort } from "../hosts/attackers.ts";
import { noGuard } from "../hosts/faults.ts";
import { bootHost, type Host } from "../hosts/lab/host.ts";
import type { Release } from "../hosts/lab/image.ts";
import { withLab } from "../hosts/lab/lab.ts";
import { actors } from "../hosts/lab/net.ts";
import { step } from "../hosts/lab/process.ts";
import { buildWorld, originPort } from "../hosts/world.ts";
import { measure } from "./measure.ts";
import { cpu, store, table, times } from "./report.ts";
import { cpuOf, moveAway, pin, type Running, residentOf } from "./servers.ts";

type Options = {
  readonly rounds: number;
  readonly json: boolean;
  readonly write: boolean;
  readonly say: (text: string) => void;
};

const chains = [
  { name: "kept", label: "nginx with proxy_pass", port: 8444 },
  { name: "plain", label: "the same, a connection each", port: 8445 },
  { name: "pushgate", label: "pushgate's chain", port: originPort },
];

/** nginx's defaults, but for what the second name says. The receiver's socket has to admit nginx's own address. */
async function addPlain(host: Host): Promise<void> {
  const server = (port: number, more = "") => `server {
  listen ${port} ssl;
  ssl_certificate ${originCertificate};
  ssl_certificate_key ${originKey};${more}
  location / { proxy_pass http://127.0.0.1:${receiverPort}; }
}
`;
  await host.writeFile("/etc/nginx/conf.d/plain.conf", server(8444) + server(8445, "\n  keepalive_timeout 0;"));
  const socket = units.socket("github");
  await host.writeFile(`${paths.units}/${socket}.d/plain.conf`, "[Socket]\nIPAddressAllow=127.0.0.1\n");
  // systemd 257 enforces a changed list only after a unit of the slice has started.
  await host.inside("systemctl daemon-reload && systemd-run --quiet --wait --collect --slice=pushgate.slice true");
  await host.inside("systemctl reload nginx.service");
}

export const benchHost = (release: Release, { rounds, json, write, say }: Options): Promise<void> =>
  withLab({ releases: [release] }, async () => {
    const host = await step(`boot ${release}`, () => bootHost({ name: "bench", release, variant: "packages" }));
    // The largest budget: with the default the receiver would answer 429 to all but 60 wrong signatures a minute.
    const world = await buildWorld([host], { config: { "pushgate:limits": { rejectionsPerMinute: 10_000 } } });
    const up = await step("pulumi up", () => world.stack.up());
    if (up.code !== 0) throw new Error(up.stdout);
    await noGuard.make(world, host);
    await addPlain(host);
    await host.inside(`systemctl start ${units.receiver}`);
    const processes = [units.nginx, "nginx.service", units.receiver].flatMap((unit) => host.processes(unit));
    pin(processes);
    const sum = (of: (pid: number) => number) => processes.reduce((all, pid) => all + of(pid), 0);
    const spool = join(host.root, "var/spool/pushgate/site");
    const stored = join(host.root, "var/spool/stored");
    mkdirSync(stored);
    const { certificate: cert, private_key: key } = world.api.zone.origin_pulls.hostname_certificates[0]!;
    const running = chains.map(({ port, ...peer }): Running => {
      const secureContext = createSecureContext(port === originPort ? { cert, key } : {});
      const to = { host: host.address, port, localAddress: actors.edge.v4[0], rejectUnauthorized: false };
      return {
        peer,
        dial: (ready) => connect({ ...to, secureContext }, ready).setNoDelay(),
        empty: () => moveAway(spool, stored),
        resident: () => sum(residentOf),
        cpu: () => sum(cpuOf),
        coldStart: 0,
        stop: async () => {},
      };
    });
    const headers = { "cf-connecting-ip": places.github };
    const servers = await measure(async () => running, { rounds, say, headers });
    const versions = await host.read("node --version; nginx -v 2>&1 | sed 's/.*nginx.//'");
    const [node, nginx] = versions.split("\n");
    const first = `Debian's ${release}: Node ${node}, nginx ${nginx}. ${rounds} rounds.`;
    const figures = [first, table({ servers }), cpu({ servers }), times({ servers })].join("\n\n");
    console.log(json ? JSON.stringify({ release, node, nginx, rounds, servers }, null, 2) : figures);
    if (write) store("host figures", figures, "benchmark-host.svg", { servers });
    await world.close();
    await host.kill();
  });
