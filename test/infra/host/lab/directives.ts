/**
 * The directives that an nginx program knows, read from its file: nginx describes each by a C struct `ngx_command_t`,
 * which begins with the length and address of its name and the levels at which it may be. nginx itself prints no list.
 */
import { readFileSync } from "node:fs";

/** NGX_HTTP_MAIN_CONF, NGX_HTTP_SRV_CONF and NGX_HTTP_LOC_CONF of nginx's ngx_http_config.h. */
const levels = { http: 0x02000000, server: 0x04000000, location: 0x08000000 };

/** Of a relocation that adds the address at which the program is loaded: x86-64, aarch64. */
const relative = [8, 1027];
const section = { relocations: 4, withoutContents: 8 };

/** Names that are allowed at http level and below it, sorted: a server that does not set one has the http level's. */
export function inheritable(program: string): string[] {
  const elf = readFileSync(program);
  const long = (at: number) => Number(elf.readBigUInt64LE(at));
  const sections = Array.from({ length: elf.readUInt16LE(60) }, (_, i) => {
    const at = long(40) + i * elf.readUInt16LE(58);
    return { type: elf.readUInt32LE(at + 4), address: long(at + 16), offset: long(at + 24), size: long(at + 32) };
  });
  /** The place in the file of what the program has at an address. */
  const placeOf = (wanted: number): number => {
    const found = sections.find(
      ({ type, address, size }) =>
        address > 0 && type !== section.withoutContents && wanted >= address && wanted < address + size,
    );
    return found === undefined ? 0 : found.offset + wanted - found.address;
  };
  const names = new Set<string>();
  for (const { offset, size } of sections.filter(({ type }) => type === section.relocations))
    for (let at = offset; at < offset + size; at += 24) {
      if (!relative.includes(elf.readUInt32LE(at + 8))) continue;
      const [pointer, text] = [placeOf(long(at)), placeOf(long(at + 16))];
      if (pointer < 8 || text === 0) continue;
      const length = long(pointer - 8);
      const name = elf.toString("latin1", text, text + length);
      if (length > 60 || !/^[a-z][a-z0-9_]+$/.test(name) || elf[text + length] !== 0) continue;
      const type = long(pointer + 8);
      // Larger values are addresses: the pointer is part of another struct.
      if (type < 2 ** 32 && type & levels.http && type & (levels.server | levels.location)) names.add(name);
    }
  return [...names].sort();
}
