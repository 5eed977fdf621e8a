/**
 * The part of Cloudflare's rule language that rules of pushgate and of a zone's owner in these tests use: parsed by type,
 * left to right, as the real engine does, so that what it rejects is rejected here. An absent header makes a comparison
 * false, except `ne`, which is true; `any` of nothing is false, `all` of nothing is true.
 */
import { type EdgeRequest, fields, type Type, type Value } from "./request.ts";
import { ExpressionError, Scanner } from "./scanner.ts";

export { ExpressionError };

/** The API's limit, for every plan; the dashboard's is 4,000. */
const longest = 4096;
/** The parser recurses, and no rule of a test is deeper. */
const deepest = 100;

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

class Parser extends Scanner {
  readonly fields = new Set<string>();
  #depth = 0;

  whole(): Node {
    const node = this.#logical("or");
    this.space();
    if (this.at < this.source.length) this.fail("unrecognised input");
    return this.#needs("Bool", node);
  }

  #needs(type: Type, node: Node, reason = ""): Node {
    if (node.type !== type) this.fail(`${reason}expected value of type ${type}, but got ${node.type}`);
    return node;
  }

  /** `or` is weaker than `and`. */
  #logical(join: "or" | "and"): Node {
    const next = (): Node => (join === "or" ? this.#logical("and") : this.#single());
    const nodes = [next()];
    while (this.skip(join === "or" ? /or\b/y : /and\b/y)) {
      this.#needs("Bool", nodes[0]!);
      nodes.push(this.#needs("Bool", next()));
    }
    if (nodes.length === 1) return nodes[0]!;
    const holds = (request: EdgeRequest) => (node: Node) => node.read(request) === true;
    const read = (request: EdgeRequest) => (join === "or" ? nodes.some(holds(request)) : nodes.every(holds(request)));
    return { type: "Bool", read };
  }

  #single(): Node {
    if (++this.#depth > deepest) this.fail("too many nested expressions");
    try {
      if (this.skip(/not\b/y)) {
        const node = this.#needs("Bool", this.#single());
        return { ...node, read: (request) => node.read(request) !== true };
      }
      if (!this.skip(/\(/y)) return this.#comparison();
      const node = this.#logical("or");
      if (!this.skip(/\)/y)) this.fail("expected )");
      return node;
    } finally {
      this.#depth--;
    }
  }

  #comparison(): Node {
    if (this.skip(/true\b/y)) return { type: "Bool", read: () => true };
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
    this.space();
    const name = this.take(/[a-z_][a-z0-9_]*(\.[a-z0-9_]+)*/y);
    if (name === undefined) this.fail("expected an identifier");
    if (this.skip(/\(/y)) return this.#call(name);
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) this.fail(`unknown identifier ${name}`);
    this.fields.add(name);
    let node: Node = { type: field.type, read: field.read };
    while (!node.each && this.skip(/\[/y)) {
      node = this.#indexed(node);
      if (!this.skip(/\]/y)) this.fail("expected ]");
    }
    return node;
  }

  #indexed({ type, read }: Node): Node {
    const element = elementOf(type);
    if (element === undefined) return this.fail(`cannot access index for type ${type}`);
    if (this.skip(/\*/y)) return { type: element, each: true, read: (request) => asList(read(request)) };
    if (type.startsWith("Map")) {
      const key = this.text();
      return { type: element, read: (request) => (read(request) as ReadonlyMap<string, Value>).get(key) };
    }
    const index = Number(this.take(/\d+/y) ?? this.fail("expected literal of type Int"));
    return { type: element, read: (request) => asList(read(request))[index] };
  }

  #call(name: string): Node {
    const close = () => this.skip(/\)/y) || this.fail("expected )");
    const argument = "invalid type of argument #0: ";
    if (name === "any" || name === "all") {
      const node = this.#needs("Array<Bool>", this.#comparison(), argument);
      close();
      const read = (request: EdgeRequest) => {
        const list = asList(node.read(request));
        return name === "any" ? list.includes(true) : !list.includes(false);
      };
      return { type: "Bool", read };
    }
    if (name !== "len" && name !== "starts_with") this.fail(`unknown identifier ${name}`);
    const node = this.#needs("Bytes", this.#value(), argument);
    if (name === "starts_with" && !this.skip(/,/y)) this.fail("expected ,");
    const text = name === "starts_with" ? this.text() : "";
    close();
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
    this.space();
    const name = this.take(/[a-z_]+/y) ?? "";
    const order = Object.hasOwn(orders, name) ? orders[name] : undefined;
    if (order === undefined && name !== "in") this.fail("expected an operator");
    if (elementOf(type) !== undefined || (type === "Ip" && name === "lt"))
      this.fail(`unsupported operation for type ${type}`);
    if (order === undefined) return { test: this.set(type), absent: false };
    const absent = name === "ne";
    if (type === "Ip") {
      const same = this.address(false);
      return { test: (value) => same(String(value)) !== absent, absent };
    }
    const literal = type === "Int" ? this.int() : this.text();
    return { test: (value) => order(value, literal), absent };
  }
}
