/** Which client certificate Cloudflare presents: what counts as drift, and when the program writes. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Presented,
  presentedDrift,
  readPresented,
  restorePresented,
  untilPresented,
} from "../../../infra/edge/presented.ts";
import { type Api, apiToken, startApi } from "../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../fakes/cloudflare/zone.ts";
import { setMocks } from "../mocks.ts";

const hostname = "hooks.example.org";
const live = (change: Partial<Presented> = {}): Presented => ({
  ...{ certId: "declared", enabled: true, status: "active", certStatus: "active" },
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
  ["the declared one, before the API had a status of certificates", live({ certStatus: undefined as never })],
  ["off", off, "declared, off"],
  ["void", live({ enabled: null }), "declared, off"],
  ["another certificate", live({ certId: "another" }), "another, on"],
  ["another certificate, off", live({ certId: "another", enabled: false }), "another, off"],
  ["deleted", live({ enabled: null, status: "deleted" }), "declared, deleted"],
  ["about to be deleted", live({ status: "pending_deletion" }), "declared, pending_deletion"],
  ["another certificate, deleted", live({ certId: "another", certStatus: "deleted" }), "another, on"],
  // Only another certificate can then be on.
  ["itself deleted", live({ certStatus: "deleted" }), "declared, deleted", renewal],
  [
    "itself about to be deleted",
    live({ ...off, certStatus: "pending_deletion" }),
    "declared, pending_deletion",
    renewal,
  ],
])("the drift of a certificate that is %s", (_, presented, is, fix) => {
  expect(presentedDrift(hostname, presented, "declared")).toBe(is && says(is, fix));
});

describe("with Cloudflare", () => {
  let api: Api;
  /** What the provider's function answers, one after another. */
  let answers: (Presented | Error)[];
  const asked: unknown[] = [];
  const access = () => ({ baseUrl: api.url, token: apiToken });
  const writes = () => api.requests.filter(({ method }) => method !== "GET").map(({ body }) => body);
  beforeEach(async () => {
    api = await startApi({ zone: emptyZone("example.org", "pro") });
    answers = [];
    asked.length = 0;
    await setMocks({
      call: ({ inputs }) => {
        asked.push(inputs);
        const answer = answers.shift()!;
        if (answer instanceof Error) throw answer;
        return answer as object;
      },
      newResource: () => ({ id: "", state: {} }),
    });
    vi.spyOn(pulumi.log, "info").mockResolvedValue(undefined);
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await api.close();
  });
  /** As the engine reports an error of a provider. */
  const failed = (details: string) => Object.assign(new Error(), { details });

  test.each(["400 Bad Request", "404 Not Found"])(
    "each hostname is read, and one without an association (%s) is absent",
    async (words) => {
      answers.push(live(), failed(`failed to make http request: GET "…/b.example.org": ${words} {}`));
      const read = await readPresented("zone", [hostname, "b.example.org"]);
      expect([...read]).toEqual([[hostname, live()]]);
      expect(asked).toEqual([hostname, "b.example.org"].map((name) => ({ zoneId: "zone", hostname: name })));
    },
  );

  test.each([
    "401 Unauthorized",
    "429 Too Many Requests",
    "500 Internal Server Error",
    "no route to host 404.example.org",
  ])("an answer that is none (%s) fails the run: a preview that could not look would show no drift", async (words) => {
    answers.push(failed(`failed to make http request: GET "…": ${words}`));
    await expect(readPresented("zone", [hostname])).rejects.toThrow(words);
  });

  test("the failure has the provider's words in one line, and the permission that reads it", async () => {
    answers.push(failed("403 Forbidden\n  Authentication error (10000)\n"));
    const failure = await readPresented("zone", [hostname]).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(pulumi.RunError);
    expect((failure as Error).message).toBe(
      `the client certificate of ${hostname} cannot be read: 403 Forbidden Authentication error (10000). Check that ` +
        "cloudflare:apiToken has the permission SSL and Certificates Read.",
    );
  });

  test("nothing is read again or written if there was no drift when the run began", async () => {
    for (const before of [undefined, live()])
      await restorePresented(access(), api.zone.id, hostname, before, "declared");
    expect([asked, writes()]).toEqual([[], []]);
  });

  test("nothing is written if the provider has written meanwhile", async () => {
    answers.push(live());
    await restorePresented(access(), api.zone.id, hostname, live({ certId: "former" }), "declared");
    expect(writes()).toEqual([]);
  });

  test("the association is written as declared if the provider saw no difference", async () => {
    answers.push(off);
    const leaf = await api.authority.issue("leaf");
    api.zone.origin_pulls.hostname_certificates.push({
      ...{ id: "declared", certificate: leaf.certificate, private_key: leaf.key },
    });
    await restorePresented(access(), api.zone.id, hostname, off, "declared");
    expect(writes()).toEqual([{ config: [{ hostname, cert_id: "declared", enabled: true }] }]);
    expect(pulumi.log.info).toHaveBeenCalledWith(
      `Cloudflare presents client certificate declared for ${hostname} again`,
    );
  });

  test("a certificate that no longer exists is named with what to do", async () => {
    answers.push(off);
    await expect(restorePresented(access(), api.zone.id, hostname, off, "declared")).rejects.toThrow(
      /cannot be restored: 400 certificate declared was not found \(1432\)\. .* raise pushgate:edge\.generation by one/,
    );
  });

  test("without a token in the configuration the run fails and names the command that sets it", async () => {
    answers.push(off);
    await expect(restorePresented(undefined, api.zone.id, hostname, off, "declared")).rejects.toThrow(
      "cloudflare:apiToken is not in the stack's configuration, so pushgate cannot restore the client certificate for " +
        `${hostname}. Run npx pulumi config set --secret cloudflare:apiToken, then npx pulumi up.`,
    );
  });

  const none = failed('GET "…": 404 Not Found');
  const until = () => untilPresented(api.zone.id, hostname, "new", 1);

  test("a run waits for the association and for the certificate in it, and reports once that it waits", async () => {
    const fresh = (change: Partial<Presented>) => live({ certId: "new", certStatus: "", ...change });
    const [pending, unloaded] = [fresh({ status: "pending_deployment" }), fresh({ certStatus: "pending_deployment" })];
    answers.push(none, live({ certId: "former" }), pending, unloaded, fresh({}));
    await until();
    expect(asked).toHaveLength(5);
    expect(vi.mocked(pulumi.log.info).mock.calls).toEqual([
      [`waiting until Cloudflare presents the new client certificate for ${hostname}`],
    ]);
  });

  test("a run that finds the certificate presented reports nothing", async () => {
    answers.push(live({ certId: "new" }));
    await until();
    expect([asked.length, vi.mocked(pulumi.log.info).mock.calls]).toEqual([1, []]);
  });

  test.each<[string, Presented | Error, string]>([
    ["no association", none, "no answer, none"],
    ["another certificate", live({ certId: "former", certStatus: "expired" }), "active, expired"],
  ])("a run waits for five minutes and not longer while Cloudflare reports %s", async (_, result, states) => {
    answers.push(result, result);
    vi.spyOn(Date, "now").mockReturnValueOnce(0).mockReturnValueOnce(300_000).mockReturnValue(300_001);
    await expect(until()).rejects.toThrow(
      `Cloudflare does not present the new client certificate for ${hostname} yet (${states}). Run npx pulumi up again in ` +
        "a few minutes. Until then nginx trusts the former client certificate too.",
    );
  });
});
