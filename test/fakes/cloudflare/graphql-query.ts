/** Parses the part of GraphQL that clients of Cloudflare's Analytics API write: one query, its variables, nested fields. */
import type { Fields } from "./refusal.ts";

/** What the API answers to a query that it rejects. */
export class QueryError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
export const malformed = (message: string): never => {
  throw new QueryError(400, message);
};
const broken = (): never => malformed("query contains error, please review it and retry");

export type Value = string | number | readonly Value[] | { readonly [key: string]: Value };
export type Field = {
  readonly name: string;
  /** The key of the answer. */
  readonly alias: string;
  readonly args: Readonly<Record<string, Value>>;
  readonly fields: readonly Field[];
};

const token = /"(?:[^"\\]|\\.)*"|\$?[A-Za-z_]\w*|-?\d+|[^\s,]/g;

/** What the query selects. Throws QueryError. */
export function parse(source: string, variables: Fields): Field[] {
  const tokens = source.match(token) ?? [];
  const declared = new Set<string>();
  const next = (): string => tokens.shift() ?? broken();
  const accept = (wanted: string): boolean => tokens[0] === wanted && tokens.shift() !== undefined;
  const require = (wanted: string): unknown => accept(wanted) || broken();
  const name = (): string => {
    const found = next();
    return /^[A-Za-z_]\w*$/.test(found) ? found : broken();
  };

  function value(): Value {
    if (accept("{")) return Object.fromEntries(pairs("}"));
    if (accept("[")) {
      const all: Value[] = [];
      while (!accept("]")) all.push(value());
      return all;
    }
    const found = next();
    if (found.startsWith("$")) {
      if (!declared.has(found)) malformed(`error parsing args: variable "${found}" is not declared`);
      return variables[found.slice(1)] as Value;
    }
    if (found.startsWith('"')) return JSON.parse(found) as string;
    if (/^-?\d+$/.test(found)) return Number(found);
    return /^[A-Za-z_]\w*$/.test(found) ? found : broken();
  }
  function pairs(end: string): [string, Value][] {
    const all: [string, Value][] = [];
    while (!accept(end)) {
      const key = name();
      require(":");
      all.push([key, value()]);
    }
    return all;
  }
  function selection(): Field[] {
    const all: Field[] = [];
    while (!accept("}")) {
      const alias = name();
      all.push({
        ...{ alias, name: accept(":") ? name() : alias },
        args: accept("(") ? Object.fromEntries(pairs(")")) : {},
        fields: accept("{") ? selection() : [],
      });
    }
    return all.length > 0 ? all : broken();
  }
  /** The schema writes its scalars in lower case, but for Time; `String!` is accepted, too. */
  function scalar(): void {
    const type = name();
    if (!/^(string|Time|uint64|int)$/i.test(type)) malformed(`error parsing args: unknown type "${type}"`);
  }
  function declaration(): void {
    const variable = next();
    require(":");
    if (accept("[")) {
      scalar();
      accept("!");
      require("]");
      if (!Array.isArray(variables[variable.slice(1)] ?? [])) malformed(`error parsing args: "${variable}" is no list`);
    } else scalar();
    if (accept("!") && variables[variable.slice(1)] === undefined)
      malformed(`error parsing args: variable "${variable}" is required`);
    declared.add(variable);
  }

  if (accept("query")) {
    if (!["(", "{"].includes(tokens[0] ?? "")) name();
    if (accept("(")) while (!accept(")")) declaration();
  }
  require("{");
  const selected = selection();
  if (tokens.length > 0) broken();
  const unknown = Object.keys(variables).find((key) => !declared.has(`$${key}`));
  if (unknown !== undefined) malformed(`error parsing args: variable "${unknown}" is not declared`);
  return selected;
}
