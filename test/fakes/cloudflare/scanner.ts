/** Reads the rule language character by character: spaces, literals, and sets of literals. */
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

export class Scanner {
  protected readonly source: string;
  protected at = 0;

  constructor(source: string) {
    this.source = source;
  }

  protected fail(reason: string): never {
    const place = JSON.stringify(this.source.slice(this.at, this.at + 20));
    throw new ExpressionError(20127, `could not parse filter expression: ${reason} before ${place}`);
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
  protected set(type: Type): (value: Value) => boolean {
    if (!this.skip(/\{/y)) this.fail("expected {");
    const [ranges, texts]: [AddressSet[], Set<Value>] = [[], new Set()];
    while (!this.skip(/\}/y)) {
      if (this.at >= this.source.length) this.fail("expected }");
      if (type === "Ip") ranges.push(this.address(true));
      else texts.add(this.text());
    }
    return (value) => texts.has(value) || ranges.some((holds) => holds(String(value)));
  }

  protected address(ranges: boolean): AddressSet {
    this.space();
    const text = this.take(/[0-9a-f:./]+/iy) ?? "";
    const set = !ranges && text.includes("/") ? "invalid IP address syntax" : addressLiteral(text);
    return typeof set === "string" ? this.fail(set) : set;
  }

  protected int(): number {
    this.space();
    return Number(this.take(/-?\d+/y) ?? this.fail("expected literal of type Int"));
  }

  /** "…" with \" and \\. */
  protected text(): string {
    this.space();
    const quoted = this.take(/"(\\["\\]|[^"\\])*"/y);
    if (quoted !== undefined) return quoted.slice(1, -1).replace(/\\(.)/g, "$1");
    return this.fail(this.source[this.at] === '"' ? "missing ending quote" : 'expected literal "quoted utf8 string"');
  }
}
