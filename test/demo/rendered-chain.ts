/** The chain of layers as the program declares and renders it. */
import { sourceSets } from "../../infra/config/derived.ts";
import type { Settings } from "../../infra/config/settings.ts";
import { hostLayers } from "../../infra/host/index.ts";
import { paths } from "../../infra/host/paths.ts";
import { type Declared, emptyZone, zoneFromDeclarations } from "../fakes/cloudflare/zone.ts";
import { example, exampleHost, made } from "../fixtures.ts";
import type { Chain } from "./chain.ts";

export function renderedChain(
  declared: readonly Declared[],
  receiver: Chain["receiver"],
  settings: Settings = example,
): Chain {
  const files = Object.values(hostLayers(settings, exampleHost, made)).flatMap((layer) => layer.files);
  const text = (path: string): string => {
    const file = files.find((one) => one.path === path);
    if (!file) throw new Error(`no layer renders ${path}`);
    return file.text;
  };
  const sockets = files.filter(({ path }) => path.startsWith(paths.units) && path.endsWith(".socket"));
  const listening = (port: number): string => {
    const socket = sockets.find(({ text }) => text.includes(`:${port}\n`));
    if (!socket)
      throw new Error(`no socket listens on ${port}; the sets are ${sourceSets(settings).map(({ name }) => name)}`);
    return socket.text;
  };
  return {
    zone: zoneFromDeclarations(declared, emptyZone(settings.zone, settings.edge.plan)),
    firewall: text(paths.nftables),
    proxy: text(paths.nginx),
    socket: listening,
    receiver,
  };
}
