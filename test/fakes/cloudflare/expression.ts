/**
 * The part of Cloudflare's rule language that rules of pushgate and of a zone's owner in these tests use: parsed by type,
 * left to right, as the real engine does, so that what it rejects is rejected here. An absent header makes a comparison
 * false, except `ne`, which is true; `any` of nothing is false.
 */
import { type AddressSet, addressLiteral } from "./address.ts";
import { type EdgeRequest, fields, type Type, type Value } from "./request.ts";

/** What follows "is not a valid value for expression because" in the API's rejection, and its code. */
export class ExpressionError extends Error {
  readonly code: number;
  constructor(code: number, because: string) {
    super(because);
    this.code = code;
  }
}

/** The API's limit, for every plan; the dashboard's is 4,000. */
const longest = 4096;

/** `each`: read gives a list, and what is done with it is done with every member. */
type Node = {
  readonly type: Type;
  readonly each?: true;
  readonly read: (request: EdgeRequest) => Value | undefined;
};

export type Expression = {
  readonly matches: (request: EdgeRequest) => boolean;
  /** What it makes use of, for the plan to allow. */
  readonly fields: ReadonlySet<string>;
};

/** Throws ExpressionError. */
export function compile(source: string): Expression {
  if (source.trim() === "") throw new ExpressionError(20125, "the expression cannot be blank");
  if (source.length > longest)
    throw new ExpressionError(20127, `the expression is ${source.length} characters long, the maximum is ${longest}`);
  const parser = new Parser(source);
  const node = parser.whole();
  return { matches: (request) => node.read(request) === true, fields: parser.fields };
}

const elementOf = (type: Type): Type | undefined => /^\w+<(.*)>$/.exec(type)?.[1] as Type | undefined;
const asList = (value: Value | undefined): readonly Value[] => (Array.isArray(value) ? value : []);

const orders: Readonly<Record<string, (a: Value, b: Value) => boolean>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
};

class Parser {
  readonly fields = new Set<string>();
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  whole(): Node {
    const node = this.#logical("or");
    if (!this.#skip(/$/y)) this.#fail("unrecognised input");
    return this.#needs("Bool", node);
  }

  #fail(reason: string): never {
    const place = JSON.stringify(this.#source.slice(this.#at, this.#at + 20));
    throw new ExpressionError(20127, `could not parse filter expression: ${reason} before ${place}`);
  }

  /** What matches here, behind spaces. */
  #take(pattern: RegExp): string | undefined {
    this.#at += /^[ \r\n\t]*/.exec(this.#source.slice(this.#at))![0].length;
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #skip(pattern: RegExp): boolean {
    return this.#take(pattern) !== undefined;
  }

  #expect(pattern: RegExp, what: string): void {
    if (!this.#skip(pattern)) this.#fail(`expected ${what}`);
  }

  #needs(type: Type, node: Node, reason = ""): Node {
    if (node.type !== type) this.#fail(`${reason}expected value of type ${type}, but got ${node.type}`);
    return node;
  }

  /** `or` is weaker than `and`. */
  #logical(join: "or" | "and"): Node {
    const next = (): Node => (join === "or" ? this.#logical("and") : this.#single());
    const nodes = [next()];
    while (this.#skip(join === "or" ? /or\b/y : /and\b/y)) {
      this.#needs("Bool", nodes[0]!);
      nodes.push(this.#needs("Bool", next()));
    }
    if (nodes.length === 1) return nodes[0]!;
    const holds = (request: EdgeRequest) => (node: Node) => node.read(request) === true;
    const read = (request: EdgeRequest) => (join === "or" ? nodes.some(holds(request)) : nodes.every(holds(request)));
    return { type: "Bool", read };
  }

  #single(): Node {
    if (this.#skip(/not\b/y)) {
      const node = this.#needs("Bool", this.#single());
      return { ...node, read: (request) => node.read(request) !== true };
    }
    if (!this.#skip(/\(/y)) return this.#comparison();
    const node = this.#logical("or");
    this.#expect(/\)/y, ")");
    return node;
  }

  #comparison(): Node {
    if (this.#skip(/true\b/y)) return { type: "Bool", read: () => true };
    const node = this.#value();
    if (node.type === "Bool" || node.type === "Array<Bool>") return node;
    const { test, absent } = this.#operator(node.type);
    if (node.each) return { type: "Array<Bool>", read: (request) => asList(node.read(request)).map(test) };
    const read = (request: EdgeRequest) => {
      const value = node.read(request);
      return value === undefined ? absent : test(value);
    };
    return { type: "Bool", read };
  }

  /** A field or a call, and what is indexed out of it. */
  #value(): Node {
    const name = this.#take(/[a-z_][a-z0-9_]*(\.[a-z0-9_]+)*/y);
    if (name === undefined) return this.#fail("expected an identifier");
    if (this.#skip(/\(/y)) return this.#call(name);
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) return this.#fail(`unknown identifier ${name}`);
    this.fields.add(name);
    let node: Node = { type: field.type, read: field.read };
    while (!node.each && this.#skip(/\[/y)) {
      node = this.#indexed(node);
      this.#expect(/\]/y, "]");
    }
    return node;
  }

  #indexed({ type, read }: Node): Node {
    const element = elementOf(type);
    if (element === undefined) return this.#fail(`cannot access index for type ${type}`);
    if (this.#skip(/\*/y)) return { type: element, each: true, read: (request) => asList(read(request)) };
    if (type.startsWith("Map")) {
      const key = this.#text();
      return { type: element, read: (request) => (read(request) as ReadonlyMap<string, Value>).get(key) };
    }
    const index = this.#int();
    return { type: element, read: (request) => asList(read(request))[index] };
  }

  #call(name: string): Node {
    const argument = "invalid type of argument #0: ";
    if (name === "any") {
      const node = this.#needs("Array<Bool>", this.#comparison(), argument);
      this.#expect(/\)/y, ")");
      return { type: "Bool", read: (request) => asList(node.read(request)).includes(true) };
    }
    if (name !== "len" && name !== "starts_with") this.#fail(`unknown identifier ${name}`);
    const node = this.#needs("Bytes", this.#value(), argument);
    if (name === "starts_with") this.#expect(/,/y, ",");
    const text = name === "starts_with" ? this.#text() : "";
    this.#expect(/\)/y, ")");
    // `len` counts bytes.
    const run = (value: Value): Value =>
      name === "len" ? Buffer.byteLength(String(value), "latin1") : String(value).startsWith(text);
    const gives = name === "len" ? "Int" : "Bool";
    // Of a list, a function makes a list.
    if (node.each) return { type: `Array<${gives}>`, read: (request) => asList(node.read(request)).map(run) };
    const read = (request: EdgeRequest) => {
      const value = node.read(request);
      return value === undefined ? undefined : run(value);
    };
    return { type: gives, read };
  }

  /** What the type allows. `absent`: the answer where there is nothing to compare. */
  #operator(type: Type): { test: (value: Value) => boolean; absent: boolean } {
    const name = this.#take(/[a-z_]+/y) ?? "";
    const order = Object.hasOwn(orders, name) ? orders[name] : undefined;
    if (order === undefined && name !== "in") this.#fail("expected an operator");
    if (elementOf(type) !== undefined || (type === "Ip" && name === "lt"))
      this.#fail(`unsupported operation for type ${type}`);
    if (order === undefined) return { test: this.#set(type), absent: false };
    const absent = name === "ne";
    if (type === "Ip") {
      const same = this.#address(false);
      return { test: (value) => same(String(value)) !== absent, absent };
    }
    const literal = type === "Int" ? this.#int() : this.#text();
    return { test: (value) => order(value, literal), absent };
  }

  /** `{ … }`, members apart by spaces. */
  #set(type: Type): (value: Value) => boolean {
    this.#expect(/\{/y, "{");
    const [ranges, texts]: [AddressSet[], Set<Value>] = [[], new Set()];
    while (!this.#skip(/\}/y)) {
      if (type === "Ip") ranges.push(this.#address(true));
      else texts.add(this.#text());
    }
    return (value) => texts.has(value) || ranges.some((holds) => holds(String(value)));
  }

  #address(ranges: boolean): AddressSet {
    const text = this.#take(/[0-9a-f:./]+/iy) ?? "";
    const set = !ranges && text.includes("/") ? "invalid IP address syntax" : addressLiteral(text);
    return typeof set === "string" ? this.#fail(set) : set;
  }

  #int(): number {
    return Number(this.#take(/-?\d+/y) ?? this.#fail("expected literal of type Int"));
  }

  /** "…" with \" and \\. */
  #text(): string {
    const quoted = this.#take(/"(\\["\\]|[^"\\])*"/y);
    if (quoted === undefined) return this.#fail('expected literal "quoted utf8 string"');
    return quoted.slice(1, -1).replace(/\\(.)/g, "$1");
  }
}
