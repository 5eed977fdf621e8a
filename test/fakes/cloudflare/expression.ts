/**
 * Cloudflare's rule language: parsed by type, left to right, as the real engine does, so that what it rejects is rejected
 * here. An absent header makes a comparison false, except `ne`, which is true; `any` of nothing is false, `all` of
 * nothing is true.
 */
import { type EdgeRequest, fields, type Type, type Value } from "./request.ts";
import { ExpressionError, Scanner, type Test } from "./scanner.ts";

export { ExpressionError };

/** The API's limit, for every plan; the dashboard's is 4,000. */
const longest = 4096;
/** The parser recurses, and no rule of a test is deeper. */
const deepest = 100;

type Context = { readonly request: EdgeRequest; readonly zone: string };
/** `each`: read gives a list, and what is done with it is done with every member. */
type Node = { readonly type: Type; readonly each: boolean; readonly read: (context: Context) => Value | undefined };

export type Expression = {
  readonly matches: (request: EdgeRequest, zone: string) => boolean;
  /** What it makes use of, for the plan to allow. */
  readonly fields: ReadonlySet<string>;
  readonly operators: ReadonlySet<string>;
};

/** Throws ExpressionError. */
export function compile(source: string): Expression {
  if (source.trim() === "") throw new ExpressionError(20125, "the expression cannot be blank");
  if (source.length > longest)
    throw new ExpressionError(20127, `the expression is ${source.length} characters long, the maximum is ${longest}`);
  const parser = new Parser(source);
  const node = parser.whole();
  return {
    matches: (request, zone) => node.read({ request, zone }) === true,
    fields: parser.fields,
    operators: parser.operators,
  };
}

const elementOf = (type: Type): Type | undefined => /^\w+<(.*)>$/.exec(type)?.[1] as Type | undefined;
const asList = (value: Value | undefined): readonly Value[] => (Array.isArray(value) ? value : []);

/** Functions of one value and, for two of them, a text; `len` of a text counts bytes. */
const functions: Readonly<
  Record<string, { of: Type; gives: Type; text?: true; run: (v: string, t: string) => Value }>
> = {
  ends_with: { of: "Bytes", gives: "Bool", text: true, run: (value, text) => value.endsWith(text) },
  len: { of: "Bytes", gives: "Int", run: (value) => Buffer.byteLength(value, "latin1") },
  lower: { of: "Bytes", gives: "Bytes", run: (value) => value.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) },
  starts_with: { of: "Bytes", gives: "Bool", text: true, run: (value, text) => value.startsWith(text) },
};

const ordered = { eq: "==", ne: "!=", lt: "<", le: "<=", gt: ">", ge: ">=" } as const;
const orders: Readonly<Record<string, (a: Value, b: Value) => boolean>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
};

class Parser extends Scanner {
  readonly fields = new Set<string>();
  readonly operators = new Set<string>();
  #depth = 0;

  whole(): Node {
    const node = this.#logical(0);
    this.space();
    if (this.at < this.source.length) this.fail("unrecognised input", this.source.length - this.at);
    if (node.type !== "Bool") this.fail(`expected value of type Bool, but got ${node.type}`);
    return node;
  }

  /** Weakest first: or, xor, and. */
  #logical(level: number): Node {
    const [pattern, join] = (
      [
        [/(\|\||or\b)/y, (a: boolean, b: () => boolean) => a || b()],
        [/(\^\^|xor\b)/y, (a: boolean, b: () => boolean) => a !== b()],
        [/(&&|and\b)/y, (a: boolean, b: () => boolean) => a && b()],
      ] as const
    )[level]!;
    const next = (): Node => (level === 2 ? this.#single() : this.#logical(level + 1));
    const nodes = [next()];
    while (this.skip(pattern)) {
      const at = this.at;
      nodes.push(next());
      const wrong = nodes.find(({ type }) => type !== "Bool");
      if (wrong) this.fail(`expected value of type Bool, but got ${wrong.type}`, 1, at);
    }
    if (nodes.length === 1) return nodes[0]!;
    const read = (context: Context) =>
      nodes
        .slice(1)
        .reduce((so, node) => join(so, () => node.read(context) === true), nodes[0]!.read(context) === true);
    return { type: "Bool", each: false, read };
  }

  #single(): Node {
    if (++this.#depth > deepest) this.fail("too many nested expressions");
    try {
      if (this.skip(/(!(?!=)|not\b)/y)) {
        const node = this.#single();
        if (node.type !== "Bool") this.fail(`expected value of type Bool, but got ${node.type}`);
        return { ...node, read: (context) => node.read(context) !== true };
      }
      if (this.skip(/\(/y)) {
        const node = this.#logical(0);
        if (!this.skip(/\)/y)) this.fail("expected )");
        return node;
      }
      return this.#comparison();
    } finally {
      this.#depth--;
    }
  }

  #comparison(): Node {
    const constant = this.skip(/true\b(?![.(])/y) ? true : this.skip(/false\b(?![.(])/y) ? false : undefined;
    if (constant !== undefined) return { type: "Bool", each: false, read: () => constant };
    const node = this.#value();
    if (node.type === "Bool" || node.type === "Array<Bool>")
      return node.each ? { ...node, each: false, type: "Array<Bool>" } : node;
    const { test, absent } = this.#operator(node.type);
    if (!node.each) {
      const read = (context: Context) => {
        const value = node.read(context);
        return value === undefined ? absent : test(value);
      };
      return { type: "Bool", each: false, read };
    }
    return { type: "Array<Bool>", each: false, read: (context) => asList(node.read(context)).map(test) };
  }

  /** A field or a call, and what is indexed out of it. */
  #value(): Node {
    this.space();
    const at = this.at;
    const name = this.take(/[a-z_][a-z0-9_]*(\.[a-z0-9_]+)*/y);
    if (name === undefined) this.fail("expected an identifier", this.source.length - at);
    let node = this.skip(/\(/y) ? this.#call(name, at) : this.#field(name, at);
    while (this.skip(/\[/y)) {
      const { type } = node;
      const element = elementOf(type);
      const inner = node.read;
      if (element === undefined) this.fail(`cannot access index for type ${type}`);
      if (this.skip(/\*/y)) node = { type: element, each: true, read: (context) => asList(inner(context)) };
      else if (type.startsWith("Map")) {
        const key = this.text();
        const read = (context: Context) => (inner(context) as ReadonlyMap<string, Value> | undefined)?.get(key);
        node = { type: element, each: false, read };
      } else {
        const index = Number(this.take(/\d+/y) ?? this.fail("expected literal of type Int"));
        node = { type: element, each: false, read: (context) => asList(inner(context))[index] };
      }
      if (!this.skip(/\]/y)) this.fail("expected ]");
      if (node.each) break;
    }
    return node;
  }

  #field(name: string, at: number): Node {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) this.fail("unknown identifier", name.length, at);
    this.fields.add(name);
    return { type: field.type, each: false, read: ({ request, zone }) => field.read(request, zone) };
  }

  #call(name: string, at: number): Node {
    const close = () => this.skip(/\)/y) || this.fail("expected )");
    if (name === "any" || name === "all") {
      const node = this.#comparison();
      if (node.type !== "Array<Bool>")
        this.fail(`invalid type of argument #0: expected value of type Array<Bool>, but got ${node.type}`, 1, at);
      close();
      const read = (context: Context) => {
        const list = asList(node.read(context));
        return name === "any" ? list.some((value) => value === true) : list.every((value) => value === true);
      };
      return { type: "Bool", each: false, read };
    }
    const called = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (called === undefined) this.fail("unknown identifier", name.length, at);
    const node = this.#value();
    if (node.type !== called.of)
      this.fail(`invalid type of argument #0: expected value of type ${called.of}, but got ${node.type}`, 1, at);
    if (called.text && !this.skip(/,/y)) this.fail("expected ,");
    const text = called.text ? this.text() : "";
    close();
    const run = (value: Value) => called.run(value as string, text);
    // Of a list, a function makes a list, to be indexed again: any(lower(H[*])[*] eq "x"); a test may stay as it is.
    if (node.each) {
      const type = `Array<${called.gives}>` as Type;
      return { type, each: false, read: (context) => asList(node.read(context)).map(run) };
    }
    const read = (context: Context) => {
      const value = node.read(context);
      return value === undefined ? undefined : run(value);
    };
    return { type: called.gives, each: false, read };
  }

  /** What the type allows. `absent`: the answer where there is nothing to compare. */
  #operator(type: Type): { test: Test; absent: boolean } {
    this.space();
    const at = this.at;
    const word = this.take(/(==|!=|<=|>=|<|>|~|[a-z_]+)/y) ?? "";
    const order = Object.entries(ordered).find(([name, sign]) => word === name || word === sign)?.[0];
    const name = order ?? (word === "~" ? "matches" : word);
    const wrong = () => this.fail(`unsupported operation for type ${type}`, word.length, at);
    if (type.startsWith("Array") || type.startsWith("Map")) return wrong();
    this.operators.add(name);
    if (name === "in") return { test: this.set(type), absent: false };
    if (order !== undefined) {
      if (type === "Ip") {
        if (order !== "eq" && order !== "ne") return wrong();
        const same = this.address(false);
        return { test: (value) => same(value as string) === (order === "eq"), absent: order === "ne" };
      }
      const literal = type === "Int" ? this.int() : this.text();
      return { test: (value) => orders[order]!(value, literal), absent: order === "ne" };
    }
    if (type !== "Bytes") return name === "" ? this.fail("expected an operator") : wrong();
    if (name === "contains") {
      const text = this.text();
      return { test: (value) => (value as string).includes(text), absent: false };
    }
    if (name === "matches") return this.#pattern((text) => new RegExp(text, "s"));
    return this.fail(word === "" ? "unrecognised input" : "expected an operator", word.length, at);
  }

  #pattern(make: (text: string) => RegExp): { test: Test; absent: boolean } {
    this.space();
    const at = this.at;
    const text = this.text();
    try {
      const pattern = make(text);
      return { test: (value) => pattern.test(value as string), absent: false };
    } catch {
      return this.fail("invalid regular expression", this.at - at, at);
    }
  }
}
