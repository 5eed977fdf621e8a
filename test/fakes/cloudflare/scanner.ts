/** Reads the rule language character by character: spaces, literals, sets of literals, and the place of a fault. */
import { type AddressSet, addressLiteral } from "./address.ts";
import type { Type, Value } from "./request.ts";

/** What follows "is not a valid value for expression because" in the API's rejection, and its code. */
export class ExpressionError extends Error {
  readonly code: number;
  constructor(code: number, because: string) {
    super(because);
    this.code = code;
  }
}

export type Test = (value: Value) => boolean;

export class Scanner {
  protected readonly source: string;
  protected at = 0;

  constructor(source: string) {
    this.source = source;
  }

  protected fail(reason: string, length = 1, at = this.at): never {
    const before = this.source.slice(0, at).split("\n");
    const column = before.at(-1)!.length;
    const line = this.source.split("\n")[before.length - 1] ?? "";
    throw new ExpressionError(
      20127,
      `could not parse filter expression: Filter parsing error (${before.length}:${column + 1}):\n${line}\n${" ".repeat(column)}${"^".repeat(Math.max(1, Math.min(length, line.length - column)))} ${reason}\n`,
    );
  }

  protected space(): void {
    this.take(/[ \r\n\t]*/y);
  }

  protected take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.source)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  protected skip(pattern: RegExp): boolean {
    this.space();
    return this.take(pattern) !== undefined;
  }

  /** `{ … }`, members apart by spaces. */
  protected set(type: Type): Test {
    if (!this.skip(/\{/y)) this.fail(this.skip(/\$/y) ? "unknown list" : "expected {");
    const tests: Test[] = [];
    while (!this.skip(/\}/y)) {
      if (this.at >= this.source.length) this.fail("expected }");
      if (type === "Ip") {
        const within: AddressSet = this.address(true);
        tests.push((value) => within(value as string));
      } else if (type === "Int") {
        const first = this.int();
        const last = this.take(/\.\./y) ? this.int() : first;
        tests.push((value) => first <= (value as number) && (value as number) <= last);
      } else {
        const text = this.text();
        tests.push((value) => value === text);
      }
    }
    return (value) => tests.some((test) => test(value));
  }

  protected address(ranges: boolean): AddressSet {
    this.space();
    const at = this.at;
    const text = this.take(/[0-9a-f:./]+/iy) ?? "";
    const set = !ranges && /\/|\.\./.test(text) ? "invalid IP address syntax" : addressLiteral(text);
    return typeof set === "string" ? this.fail(set, text.length, at) : set;
  }

  protected int(): number {
    this.space();
    return Number(this.take(/-?\d+/y) ?? this.fail("expected literal of type Int"));
  }

  /** "…" with \" \\ and \xHH; r"…" and r#"…"# as they are. */
  protected text(): string {
    this.space();
    const at = this.at;
    const raw = this.take(/r(#*)"(.*?)"\1/sy);
    if (raw !== undefined) return raw.slice(raw.indexOf('"') + 1, raw.lastIndexOf('"'));
    const quoted = this.take(/"(\\(["\\]|x[0-9a-f]{2})|[^"\\])*"/iy);
    if (quoted === undefined)
      return this.fail(
        this.source[at] === '"' ? "missing ending quote" : 'expected literal "quoted utf8 string"',
        1,
        at,
      );
    return quoted
      .slice(1, -1)
      .replace(/\\(x..|.)/g, (_, code: string) =>
        code.length === 1 ? code : String.fromCharCode(Number.parseInt(code.slice(1), 16)),
      );
  }
}
