/** Which client certificate Cloudflare presents: what counts as drift, and what `up` then writes and waits for. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiError, type CloudflareApi } from "../../../infra/edge/api.ts";
import {
  type Presented,
  presentedDrift,
  readPresented,
  restorePresented,
  untilPresented,
} from "../../../infra/edge/presented.ts";

// A run waits two seconds between two looks.
vi.mock("node:timers/promises", () => ({ setTimeout: async () => {} }));

const hostname = "hooks.example.org";
const live = (change: Partial<Presented> = {}): Presented => ({
  ...{ cert_id: "declared", enabled: true, status: "active", cert_status: "active" },
  ...change,
});
const says = (is: string, fix = "Run npx pulumi up, which restores it.") =>
  `the client certificate of ${hostname} at Cloudflare is ${is}; declared is declared, on. ${fix}`;

const [off, leaves] = [live({ enabled: false }), "pending_deletion"];
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
  ["about to be deleted", live({ status: leaves }), `declared, ${leaves}`],
  ["another certificate, deleted", live({ cert_id: "another", cert_status: "deleted" }), "another, on"],
  // Only another certificate can then be on.
  ["itself deleted", live({ cert_status: "deleted" }), "declared, deleted", renewal],
  ["itself about to be deleted", live({ ...off, cert_status: leaves }), `declared, ${leaves}`, renewal],
])("the drift of a certificate that is %s", (_, presented, is, fix) => {
  expect(presentedDrift(hostname, presented, "declared")).toBe(is && says(is, fix));
});

const get = vi.fn<(path: string) => Promise<Presented | undefined>>();
const put = vi.fn();
const zone = { api: { get, put } as Partial<CloudflareApi> as CloudflareApi, id: "z" };
const answers = (...all: (Presented | undefined)[]) => all.map((one) => get.mockResolvedValueOnce(one));
beforeEach(() => {
  get.mockReset();
  vi.spyOn(pulumi.log, "info").mockResolvedValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

test("each hostname is read, and one without an association is absent", async () => {
  answers(live(), undefined);
  expect([...(await readPresented(zone, [hostname, "b.example.org"]))]).toEqual([[hostname, live()]]);
  const path = (name: string) => [`zones/z/origin_tls_client_auth/hostnames/${name}`];
  expect(get.mock.calls).toEqual([hostname, "b.example.org"].map(path));
});

const wait = "Run it again in a few minutes.";
const connect = "Check that this computer reaches Cloudflare's API, and run it again.";
const ofToken =
  "Check that cloudflare:apiToken is valid, belongs to this zone and has the permission SSL and Certificates Read.";
test.each<[status: number, code: number | undefined, says: string]>([
  [400, 10013, ofToken],
  [404, undefined, connect],
  [429, 10013, wait],
  [500, undefined, wait],
])("status %i with the code %s fails the run: a preview that could not look would show no drift", async (...row) => {
  const [status, code, says] = row;
  get.mockRejectedValueOnce(new ApiError(status, `${status} why`, code));
  const failure = await readPresented(zone, [hostname]).catch((error: Error) => error);
  expect(failure).toBeInstanceOf(pulumi.RunError);
  expect((failure as Error).message).toBe(
    `the client certificate of ${hostname} cannot be read: ${status} why. ${says}`,
  );
});

test("nothing is read again or written if there was no drift when the run began", async () => {
  for (const before of [undefined, live()]) await restorePresented(zone, hostname, before, "declared");
  expect([get.mock.calls, put.mock.calls]).toEqual([[], []]);
});

test("up writes a certificate that the provider left as it was, and names the remedy if Cloudflare rejects that", async () => {
  answers(off, off);
  put.mockResolvedValueOnce({}).mockRejectedValueOnce(new ApiError(400, "400 not found"));
  await restorePresented(zone, hostname, off, "declared");
  const config = [{ hostname, cert_id: "declared", enabled: true }];
  expect(put.mock.calls).toEqual([["zones/z/origin_tls_client_auth/hostnames", { config }]]);
  expect(pulumi.log.info).toHaveBeenCalledWith(`Cloudflare presents client certificate declared for ${hostname} again`);
  const says = /^the client .* cannot be restored: 400 not found\. If declared .*edge\.generation/;
  await expect(restorePresented(zone, hostname, off, "declared")).rejects.toThrow(says);
});

const until = () => untilPresented(zone, hostname, "new");

test("a run waits for the association and for the certificate in it, and reports once that it waits", async () => {
  const fresh = (change: Partial<Presented>) => live({ cert_id: "new", cert_status: "", ...change });
  const [pending, unloaded] = [fresh({ status: "pending_deployment" }), fresh({ cert_status: "pending_deployment" })];
  answers(undefined, live({ cert_id: "former" }), pending, unloaded, fresh({}));
  await until();
  // It is presented, so there is nothing to wait for.
  answers(live({ cert_id: "new" }));
  await until();
  expect(get).toHaveBeenCalledTimes(6);
  expect(vi.mocked(pulumi.log.info).mock.calls).toEqual([
    [`waiting until Cloudflare presents the new client certificate for ${hostname}`],
  ]);
});

test.each<[string, Presented | undefined, string]>([
  ["no association", undefined, "no answer, none"],
  ["another certificate", live({ cert_id: "former", cert_status: "expired" }), "active, expired"],
])("a run waits for five minutes and not longer while Cloudflare reports %s", async (_, result, states) => {
  answers(result, result);
  vi.spyOn(Date, "now").mockReturnValueOnce(0).mockReturnValueOnce(300_000).mockReturnValue(300_001);
  await expect(until()).rejects.toThrow(
    `Cloudflare does not present the new client certificate for ${hostname} yet (${states}). Run npx pulumi up again in ` +
      "a few minutes. Until then nginx trusts the former client certificate too.",
  );
});
