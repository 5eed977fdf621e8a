/** A name server for throwaway hosts. */
import { createSocket, type Socket } from "node:dgram";
import { isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

export type Resolver = Awaited<ReturnType<typeof startResolver>>;

/** Record types and codes of RFC 1035 and 3596. */
const types = { A: 1, AAAA: 28 } as const;
const noSuchName = 3;

/** Rejects with EADDRINUSE if another name server listens on this address. */
export async function startResolver(address: string) {
  /** Name -> the addresses to answer with; a name that is missing here does not exist. */
  const names = new Map<string, readonly string[]>();
  const socket: Socket = createSocket("udp4");
  socket.on("message", (query, { port, address: to }) => {
    const { name, type, end } = question(query);
    socket.send(answer(query.subarray(0, end), type, names.get(name)), port, to);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject).bind(53, address, resolve);
  });
  return { address, names, close: () => void socket.close() };
}

function question(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length).toLowerCase());
    at += 1 + length;
  }
  return { name: labels.join("."), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** `query`: header and question, which an answer repeats. */
function answer(query: Buffer, type: number, addresses: readonly string[] | undefined): Buffer {
  const wanted = (addresses ?? []).filter((one) => type === (isIPv6(one) ? types.AAAA : types.A));
  const head = Buffer.from(query);
  head.writeUInt16BE(0x8180 | (addresses === undefined ? noSuchName : 0), 2);
  head.writeUInt16BE(wanted.length, 6);
  head.writeUInt32BE(0, 8);
  const records = wanted.map((one) => {
    const data = bytes(one);
    // A pointer to the question's name, the type, class IN, a lifetime of one second.
    return Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 1, 0, data.length, ...data]);
  });
  return Buffer.concat([head, ...records]);
}

const bytes = (address: string): number[] => ipaddr.parse(address).toByteArray();
