/** The program's own client of Cloudflare's API. The web answers as a test lists; pauses are recorded, not waited for. */
import { beforeEach, expect, test, vi } from "vitest";
import { ApiError, cloudflareApi, explained } from "../../../infra/edge/api.ts";
import { type Answer, type Bounds, type Outgoing, ofApi } from "../../../service/exchange.ts";

const pauses = vi.hoisted((): number[] => []);
vi.mock("node:timers/promises", () => ({ setTimeout: async (ms: number) => void pauses.push(ms) }));
const web = vi.hoisted(() => ({ answers: [] as (Answer | Error)[], requests: [] as (Outgoing & Bounds)[] }));
vi.mock("../../../service/exchange.ts", async (original) => ({
  ...(await original<object>()),
  exchange: async (outgoing: Outgoing, bounds: Bounds) => {
    web.requests.push({ ...outgoing, ...bounds });
    const answer = web.answers.shift()!;
    if (answer instanceof Error) throw answer;
    return answer;
  },
}));
const { answers, requests } = web;
beforeEach(() => {
  for (const list of [answers, requests, pauses]) list.length = 0;
});

const [base, token] = ["https://api.example.net/client/v4", "a-token-0123456789"];
const api = () => cloudflareApi({ baseUrl: base, token });
const text = (status: number, text: string, headers: Answer["headers"] = {}): Answer => ({ status, text, headers });
const json = (status: number, body: object, headers?: Answer["headers"]) => text(status, JSON.stringify(body), headers);
const ok = (result: unknown, result_info?: object) =>
  json(200, { success: true, errors: [], messages: [], result, ...(result_info && { result_info }) });
const failed = (status: number, errors: readonly object[], headers?: Answer["headers"]) =>
  json(status, { success: false, errors, messages: [], result: null }, headers);

/** The failure of a request that must fail. */
async function refusal(request: Promise<unknown>): Promise<ApiError> {
  const error = await request.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(ApiError);
  expect((error as Error).message).not.toContain(token);
  return error as ApiError;
}
const paths = () => requests.map(({ method, url }) => `${method} ${url.replace(base, "")}`);

test("a request carries the token and goes below the base, with or without a slash at its end", async () => {
  for (const baseUrl of [base, `${base}/`]) {
    answers.push(ok({ id: "z" }));
    expect(await cloudflareApi({ baseUrl, token }).get("zones/z")).toEqual({ id: "z" });
  }
  expect(paths()).toEqual(["GET /zones/z", "GET /zones/z"]);
  const authorization = `Bearer ${token}`;
  expect(requests).toMatchObject(Array(2).fill({ headers: { authorization }, body: undefined, ...ofApi }));
});

test("the client repeats a request to a busy API three times, and returns the fourth answer", async () => {
  answers.push(failed(429, []), text(500, ""), text(502, "<html>Bad Gateway</html>"), ok("done"));
  expect(await api().get("ips")).toBe("done");
  expect(paths()).toEqual(Array(4).fill("GET /ips"));
  expect(pauses).toEqual([2000, 2000, 2000]);
});

test("the client gives up after the fourth, with the status and Cloudflare's words", async () => {
  answers.push(...Array(4).fill(failed(429, [{ code: 10013, message: "Please wait" }])), ok("never"));
  const { status, message } = await refusal(api().get("ips"));
  expect([status, message]).toEqual([429, "429 Please wait (10013)"]);
  expect(requests).toHaveLength(4);
});

test.each([
  ["59", 59_000],
  ["60", 2000],
])("Retry-After: %s makes the client wait %i ms", async (after, pause) => {
  answers.push(failed(429, [], { "retry-after": after }), ok(1));
  expect(await api().get("ips")).toBe(1);
  expect(pauses).toEqual([pause]);
});

test("a write is repeated with its body, a dry run as one", async () => {
  answers.push(failed(503, []), ok([]));
  await api().dryRun("PUT", "zones/z/x", { config: [1] });
  const sent = requests.map(({ body }, i) => [paths()[i], body]);
  expect(sent).toEqual(Array(2).fill(["PUT /zones/z/x?dry_run=true", '{"config":[1]}']));
});

test.each<[string, Answer | Error, status: number, message: RegExp]>([
  ["a rejection", failed(400, [{ code: 1000, message: "Invalid" }]), 400, /^400 Invalid \(1000\)$/],
  ["a rejection with an empty envelope", text(403, "{}"), 403, /^403$/],
  ["a rejection with an error that has no message", failed(400, [{ code: 9 }]), 400, /^400 \(9\)$/],
  ["status 200, without success", failed(200, [{ code: 9, message: "no" }]), 200, /^200 no \(9\)$/],
  ["text of others", failed(400, [{ code: 1, message: "\u001b[2J\nrule" }]), 400, /^400 \?\[2J rule \(1\)$/],
  ["a page", text(200, "<html>Just a moment...</html>"), 200, /^200 and no JSON$/],
  ["a proxy's 404", text(404, "<html>"), 404, /^404 and no JSON$/],
  ["half of an envelope", text(200, '{"success":true,"result":{"id'), 200, /^200 and no JSON$/],
  ["nothing", new Error("aborted"), 0, /^no answer from api\.example\.net \(aborted\)$/],
  ["a redirect", text(300, "", { location: `${base}/elsewhere` }), 300, /^300$/],
])("the client does not repeat a request that is answered with %s, and fails", async (_, answer, status, message) => {
  answers.push(answer, ok("never"));
  const refused = await refusal(api().get("zones/z"));
  expect([refused.status, refused.message]).toEqual([status, expect.stringMatching(message)]);
  expect(paths()).toEqual(["GET /zones/z"]);
});

test("an error that is not an answer of Cloudflare is thrown", () => {
  expect(() => explained("it", "DNS Edit", new TypeError("x"))).toThrow(TypeError);
});

test("get returns undefined for 404, and no other call does", async () => {
  answers.push(...Array<Answer>(4).fill(failed(404, [{ code: 7003, message: "not found" }])));
  expect(await api().get("zones/z")).toBeUndefined();
  for (const call of [api().list("zones"), api().dryRun("PUT", "zones/z", {}), api().put("zones/z", {})])
    expect((await refusal(call)).status).toBe(404);
});

test("the message has every error of the envelope, and quotes a long expression in part", async () => {
  const message = `'${"x".repeat(4000)}' is not a valid value for expression`;
  answers.push(failed(400, [{ message: "first" }, { code: 20127, message }]));
  expect((await refusal(api().get("zones/z"))).message).toBe(
    `400 first; '${"x".repeat(80)}…' is not a valid value for expression (20127)`,
  );
});

test("an envelope with success is no failure, whatever its errors, nor is an answer without a body", async () => {
  answers.push(json(200, { success: true, errors: [{ code: 9, message: "deprecated" }], result: "done" }));
  expect(await api().get("zones/z")).toBe("done");
  answers.push(text(204, ""), text(200, ""));
  expect(await api().get("zones/z")).toBeUndefined();
  await api().put("zones/z", {});
});

const page = (result: unknown[], total_pages?: number) => ok(result, { page: 1, total_pages });
test("a list has every page, in order, and keeps the filters of its path", async () => {
  answers.push(page([1, 2], 3), page([3], 3), page([4], 3), page(["never"]));
  expect(await api().list("certificates?zone_id=z")).toEqual([1, 2, 3, 4]);
  expect(paths()).toEqual([1, 2, 3].map((n) => `GET /certificates?zone_id=z&page=${n}&per_page=50`));
});
test.each<[string, Answer]>([
  ["that has no pages", ok([])],
  ["whose answer does not number its pages", ok([], { cursors: { after: "" } })],
  ["without a result", ok(null)],
  ["with no page at all", page([], 0)],
])("a list %s is one request", async (_, answer) => {
  answers.push(answer, ok(["never"]));
  expect(await api().list("zones")).toEqual([]);
  expect(paths()).toEqual(["GET /zones?page=1&per_page=50"]);
});
test("a list fails as a whole if one page fails", async () => {
  answers.push(page([1], 2), failed(403, [{ code: 10000, message: "Authentication error" }]));
  expect((await refusal(api().list("zones"))).status).toBe(403);
});

test("a query of the GraphQL API sends the variables, and returns the data", async () => {
  answers.push(json(200, { data: { viewer: {} }, errors: null }));
  expect(await api().query("query", { zone: "z" })).toEqual({ viewer: {} });
  expect(paths()).toEqual(["POST /graphql"]);
  expect(JSON.parse(requests[0]!.body!)).toEqual({ query: "query", variables: { zone: "z" } });
});
test.each([200, 400])("a query throws the errors of an answer with status %i", async (status) => {
  answers.push(json(status, { data: null, errors: [{ message: 'unknown field "ref"', path: ["viewer"] }] }));
  expect(await refusal(api().query("query", {}))).toMatchObject({ status, message: `${status} unknown field "ref"` });
});

test("with a deadline, which ends it, a request is not repeated", async () => {
  const { signal } = new AbortController();
  answers.push(text(429, "{}", { "retry-after": "1" }));
  await refusal(cloudflareApi({ baseUrl: base, token }, signal).get("zones/z"));
  expect([requests.map((request) => request.signal), pauses]).toEqual([[signal], []]);
});
