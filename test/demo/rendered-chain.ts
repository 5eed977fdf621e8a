/** The chain of layers as the program declares and renders it. */
import { hostLayers } from "../../infra/host/index.ts";
import { paths } from "../../infra/host/paths.ts";
import { type Declared, emptyZone, zoneFromDeclarations } from "../fakes/cloudflare/zone.ts";
import { example, exampleHost, made } from "../fixtures.ts";
import type { Chain } from "./chain.ts";

export function renderedChain(declared: readonly Declared[], receiver: Chain["receiver"]): Chain {
  const files = Object.values(hostLayers(example, exampleHost, made)).flatMap((layer) => layer.files);
  const text = (name: string) => files.find(({ path }) => path === name)!.text;
  const sockets = files.filter(({ path }) => path.startsWith(paths.units) && path.endsWith(".socket"));
  return {
    zone: zoneFromDeclarations(declared, emptyZone(example.zone, example.edge.plan)),
    firewall: text(paths.nftables),
    proxy: text(paths.nginx),
    socket: (port) => sockets.find(({ text }) => text.includes(`:${port}\n`))!.text,
    receiver,
  };
}
