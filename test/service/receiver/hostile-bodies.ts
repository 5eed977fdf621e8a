/** Bodies that cost a JSON parser much memory or time for their size. Each holds a push to the branch main. */

/** `{"ref":"refs/heads/main","x":…}` with about `bytes` bytes. */
export function hostileBodies(bytes: number): Record<string, Buffer> {
  const room = bytes - 100;
  const body = (inside: string) => Buffer.from(`{"ref":"refs/heads/main","x":${inside}}`);
  const list = (item: (i: number) => string): string => {
    const items: string[] = [];
    for (let length = 0, i = 0; length < room - 30; i++) {
      const next = item(i);
      items.push(next);
      length += next.length + 1;
    }
    return `[${items.join()}]`;
  };
  const fields = (item: (i: number) => string) => list(item).replace(/^\[(.*)\]$/s, "{$1}");
  const nested = (open: string, close: string) => {
    const levels = Math.floor(room / (open.length + close.length));
    return `${open.repeat(levels)}1${close.repeat(levels)}`;
  };
  const name = (i: number) => i.toString(36);
  return {
    "nested brackets": body(nested("[", "]")),
    "nested objects": body(nested('{"a":', "}")),
    "empty lists": body(list(() => "[]")),
    "empty objects": body(list(() => "{}")),
    "objects of different shapes": body(list((i) => `{"k${name(i)}":1}`)),
    "different keys": body(fields((i) => `"${name(i)}":1`)),
    "numbers as keys": body(fields((i) => `"${(i * 4099) % 4294967291}":1`)),
    "the same key again and again": body(fields(() => '"__proto__":{}')),
    "different texts": body(list((i) => `"${name(i)}"`)),
    "fields of the first level": Buffer.from(
      `${fields((i) => `"${name(i)}":[]`).slice(0, -1)},"ref":"refs/heads/main"}`,
    ),
    "one long number": body("1".repeat(room)),
    "one text of escapes": body(`"${"\\u4e00".repeat(room / 6)}"`),
    "a long ref": Buffer.from(`{"ref":"refs/heads/${"x".repeat(room)}"}`),
    "brackets that are never closed": Buffer.from("[".repeat(bytes)),
  };
}
