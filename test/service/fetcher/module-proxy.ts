/** A proxy of Go modules, with whatever archives a test makes. */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { crc32, deflateRawSync } from "node:zlib";

/** `mode`: of Unix, with its kind; `size`: what the archive says, where that is a lie. */
export type Entry = Readonly<{ name: string; text: string; mode?: number; size?: number }>;

export function zipOf(entries: readonly Entry[]): Buffer {
  const [local, central]: [Buffer[], Buffer[]] = [[], []];
  let offset = 0;
  for (const { name, text, mode = 0o100644, size = Buffer.byteLength(text) } of entries) {
    const [path, packed] = [Buffer.from(name), deflateRawSync(text)];
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x800, 2); // UTF-8
    common.writeUInt16LE(8, 4);
    common.writeUInt32LE(crc32(text), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(size, 18);
    common.writeUInt16LE(path.length, 22);
    const more = Buffer.alloc(14);
    more.writeUInt32LE((mode << 16) >>> 0, 6);
    more.writeUInt32LE(offset, 10);
    central.push(Buffer.from("PK\x01\x02\x14\x03"), common, more, path);
    local.push(Buffer.from("PK\x03\x04"), common, path, packed);
    offset += 30 + path.length + packed.length;
  }
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(Buffer.concat(central).length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...local, ...central, Buffer.from("PK\x05\x06"), end]);
}

const sha256 = (text: string) => createHash("sha256").update(text);
const h1 = (lines: string) => `h1:${sha256(lines).digest("base64")}`;
const line = (name: string, text: string) => `${sha256(text).digest("hex")}  ${name}\n`;

/** A module with its lines of go.sum. `entries`: of its archive, in place of `files` and go.mod. */
export function moduleOf(path: string, version: string, files: Readonly<Record<string, string>>, requires = "") {
  const mod = `module ${path}\n\nrequire (\n${requires}\n)\n`;
  const entries: readonly Entry[] = Object.entries({ ...files, "go.mod": mod })
    .map(([name, text]) => ({ name: `${path}@${version}/${name}`, text }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const zip = h1(entries.map(({ name, text }) => line(name, text)).join(""));
  return {
    ...{ mod, entries, path, version },
    at: `/${[path, version].map((text) => text.replace(/[A-Z]/g, (it) => `!${it.toLowerCase()}`)).join("/@v/")}`,
    modSum: `${path} ${version}/go.mod ${h1(line("go.mod", mod))}\n`,
    zipSum: `${path} ${version} ${zip}\n`,
  };
}

/** Answers with what `has` has for a path: a status, a text, or a function that writes. */
export async function startProxy() {
  const has = new Map<string, number | string | Buffer | ((write: (text: string) => void) => void)>();
  const asked: string[] = [];
  const server = createServer(({ url = "" }, answer) => {
    asked.push(url);
    const found = has.get(decodeURIComponent(url)) ?? 404;
    if (typeof found === "function") return found((text) => void answer.write(text));
    if (typeof found === "number") answer.writeHead(found, { location: "/moved" }).end();
    else answer.end(found);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    ...{ has, asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
    add(...modules: readonly ReturnType<typeof moduleOf>[]) {
      for (const { at, mod, entries } of modules) has.set(`${at}.mod`, mod).set(`${at}.zip`, zipOf(entries));
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
