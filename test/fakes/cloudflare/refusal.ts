/** What a handler of the fake API takes and returns; a Refusal becomes the API's error envelope. */

export class Refusal extends Error {
  readonly status: number;
  readonly code: number;
  readonly pointer: string | undefined;
  constructor(status: number, code: number, message: string, pointer?: string) {
    super(message);
    this.status = status;
    this.code = code;
    this.pointer = pointer;
  }
}

export type Fields = Record<string, unknown>;

export type Call = {
  /** The values of the path's `:names`. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Fields;
  /** Throws if the token lacks it, for a permission that depends on more than the path. */
  readonly demand: (permission: string) => void;
  readonly holds: (permission: string) => boolean;
};

/** `raw`: the whole answer, where it has not the API's envelope. */
export type Reply = {
  readonly status?: number;
  readonly result?: unknown;
  readonly info?: unknown;
  readonly raw?: unknown;
};

/** Method, path, the token's permission, what happens. `Read` is implied by `Write`. */
export type Route = readonly [method: string, path: string, permission: string | undefined, handle: Handle];
type Handle = (call: Call) => Reply | Promise<Reply>;

export const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, "Z");

export function found<T>(value: T | undefined, code: number, message: string): T {
  if (value === undefined) throw new Refusal(404, code, message);
  return value;
}

export function byId<T extends { id: string }>(all: readonly T[], wanted: unknown, code: number, message: string): T {
  const one = all.find(({ id }) => id === wanted);
  return found(one, code, message);
}

/** One page of a list, and the numbers that say which. */
export function paged(all: readonly unknown[], query: URLSearchParams, usual = 100): Reply {
  const [page, per_page] = [Number(query.get("page") ?? 1), Number(query.get("per_page") ?? usual)];
  const result = all.slice((page - 1) * per_page, page * per_page);
  const total_pages = Math.ceil(all.length / per_page);
  return { result, info: { page, per_page, count: result.length, total_count: all.length, total_pages } };
}
