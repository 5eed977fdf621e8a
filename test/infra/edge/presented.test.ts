/** Which client certificate Cloudflare presents: what counts as drift. test/engine/edge-drift.test.ts has what is written. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { cloudflareApi } from "../../../infra/edge/api.ts";
import {
  type Presented,
  presentedDrift,
  readPresented,
  restorePresented,
  untilPresented,
} from "../../../infra/edge/presented.ts";
import { type Api, apiToken, startApi } from "../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../fakes/cloudflare/zone.ts";

// The client waits two seconds for a busy API.
vi.mock("node:timers/promises", () => ({ setTimeout: async () => {} }));

const hostname = "hooks.example.org";
const live = (change: Partial<Presented> = {}): Presented => ({
  ...{ cert_id: "declared", enabled: true, status: "active", cert_status: "active" },
  ...change,
});
const says = (is: string, fix = "Run npx pulumi up, which restores it.") =>
  `the client certificate of ${hostname} at Cloudflare is ${is}; declared is declared, on. ${fix}`;

const off = live({ enabled: false });
const renewal = "Raise pushgate:edge.generation by one, then run npx pulumi up, which makes another.";
test.each<[string, Presented | undefined, is?: string, fix?: string]>([
  ["none yet: the provider creates it", undefined],
  ["the declared one", live()],
  ["the declared one, on its way to Cloudflare's locations", live({ status: "pending_deployment" })],
  ["the declared one, before the API had a status of certificates", live({ cert_status: undefined as never })],
  ["off", off, "declared, off"],
  ["void", live({ enabled: null }), "declared, off"],
  ["another certificate", live({ cert_id: "another" }), "another, on"],
  ["another certificate, off", live({ cert_id: "another", enabled: false }), "another, off"],
  ["deleted", live({ enabled: null, status: "deleted" }), "declared, deleted"],
  ["about to be deleted", live({ status: "pending_deletion" }), "declared, pending_deletion"],
  ["another certificate, deleted", live({ cert_id: "another", cert_status: "deleted" }), "another, on"],
  // Only another certificate can then be on.
  ["itself deleted", live({ cert_status: "deleted" }), "declared, deleted", renewal],
  [
    "itself about to be deleted",
    live({ ...off, cert_status: "pending_deletion" }),
    "declared, pending_deletion",
    renewal,
  ],
])("the drift of a certificate that is %s", (_, presented, is, fix) => {
  expect(presentedDrift(hostname, presented, "declared")).toBe(is && says(is, fix));
});

describe("with Cloudflare", () => {
  let api: Api;
  const at = () => ({ api: cloudflareApi({ baseUrl: api.url, token: apiToken }), id: api.zone.id });
  const path = (name = hostname) => `/zones/${api.zone.id}/origin_tls_client_auth/hostnames/${name}`;
  const asked = () => api.requests.filter(({ method }) => method === "GET").map((request) => request.path);
  /** The next answers of the API, instead of its own. */
  const answers = (...all: (Presented | number)[]) => {
    const success = (result: Presented) => JSON.stringify({ success: true, errors: [], result });
    for (const one of all)
      api.faults.push({
        ...{ method: "GET", times: 1 },
        ...(typeof one === "number" ? { status: one } : { status: 200, body: success(one) }),
      });
  };
  beforeEach(async () => {
    api = await startApi({ zone: emptyZone("example.org", "pro") });
    vi.spyOn(pulumi.log, "info").mockResolvedValue(undefined);
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await api.close();
  });

  test("each hostname is read, and one without an association is absent", async () => {
    answers(live());
    expect([...(await readPresented(at(), [hostname, "b.example.org"]))]).toHaveLength(1);
    expect(asked().sort()).toEqual(["b.example.org", hostname].map(path));
    expect(api.requests.map(({ status }) => status).sort()).toEqual([200, 404]);
  });

  const wait = "Run it again in a few minutes.";
  const connect = "Check that this computer reaches Cloudflare's API, and run it again.";
  const ofToken =
    "Check that cloudflare:apiToken is valid, belongs to this zone and has the permission SSL and Certificates Read.";
  test.each<[status: number, body: string | undefined, says: string]>([
    [400, undefined, `400 Please wait and try again (10013). ${ofToken}`],
    [404, "<html>a proxy's</html>", `404 and no JSON. ${connect}`],
    [429, undefined, `429 Please wait and try again (10013). ${wait}`],
    [500, "", `500. ${wait}`],
  ])("status %i with the body %s fails the run: a preview that could not look would show no drift", async (...row) => {
    const [status, body, says] = row;
    api.faults.push({ times: 9, status, ...(body !== undefined && { body }) });
    const failure = await readPresented(at(), [hostname]).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(pulumi.RunError);
    expect((failure as Error).message).toBe(`the client certificate of ${hostname} cannot be read: ${says}`);
  });

  test("nothing is read again or written if there was no drift when the run began", async () => {
    for (const before of [undefined, live()]) await restorePresented(at(), hostname, before, "declared");
    expect(api.requests).toEqual([]);
  });

  const until = () => untilPresented(at(), hostname, "new");

  test("a run waits for the association and for the certificate in it, and reports once that it waits", async () => {
    const fresh = (change: Partial<Presented>) => live({ cert_id: "new", cert_status: "", ...change });
    const [pending, unloaded] = [fresh({ status: "pending_deployment" }), fresh({ cert_status: "pending_deployment" })];
    answers(404, live({ cert_id: "former" }), pending, unloaded, fresh({}));
    await until();
    // It is presented, so there is nothing to wait for.
    answers(live({ cert_id: "new" }));
    await until();
    expect(asked()).toHaveLength(6);
    expect(vi.mocked(pulumi.log.info).mock.calls).toEqual([
      [`waiting until Cloudflare presents the new client certificate for ${hostname}`],
    ]);
  });

  test.each<[string, Presented | number, string]>([
    ["no association", 404, "no answer, none"],
    ["another certificate", live({ cert_id: "former", cert_status: "expired" }), "active, expired"],
  ])("a run waits for five minutes and not longer while Cloudflare reports %s", async (_, result, states) => {
    answers(result, result);
    vi.spyOn(Date, "now").mockReturnValueOnce(0).mockReturnValueOnce(300_000).mockReturnValue(300_001);
    await expect(until()).rejects.toThrow(
      `Cloudflare does not present the new client certificate for ${hostname} yet (${states}). Run npx pulumi up again in ` +
        "a few minutes. Until then nginx trusts the former client certificate too.",
    );
  });
});
