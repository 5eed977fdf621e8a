/** The table of git hosts, and how the receiver verifies and reads the deliveries of each. */
import { createHmac } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type GitHostName, gitHostNames, gitHosts, markedBy } from "../../../service/git-hosts/index.ts";
import { type Decision, decide } from "../../../service/git-hosts/payload.ts";
import { isKey, writtenKey } from "../../../service/git-hosts/standard-signature.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { badlySigned, pushes } from "../../fakes/pushes.ts";
import { bytes, deliveryOf, gitlabPayload, type Headers, senders, standardHeaders } from "../../fakes/senders.ts";
import { type Running, receiver } from "../receiver/harness.ts";

const all = Object.entries(gitHosts);
const [one, two] = ["1".repeat(40), "2".repeat(40)] as const;
const { secret } = senders.github;
const key = senders.gitlab.secret;

const decided = (name: GitHostName, payload: unknown, headers: Headers = {}): Decision =>
  decide(
    gitHosts[name].payload,
    { ...senders[name].headers(Buffer.alloc(0), senders[name].secret), ...headers },
    bytes(payload),
    "main",
  );

afterEach(() => vi.useRealTimers());

test("the git hosts that publish their ranges have loopback ports of their own, below those of the other sockets", () => {
  const ports = all.flatMap(([, { publishedPort }]) => publishedPort ?? []);
  expect(new Set(ports).size).toBe(ports.length);
  for (const port of ports) expect(port > 9460 && port < 9470).toBe(true);
  expect(gitHosts).toMatchObject({
    github: { publishedPort: 9461 },
    gitlab: { publishedPort: 9462 },
    bitbucket: { publishedPort: 9463 },
  });
});

test("each git host has its mark, its servers, its page of webhooks and the name of the field for the secret", () => {
  const rows = all.map(([name, { mark, domains = [], webhookPage, deliveryHeader, signatures, ...more }]) => [
    ...[name, mark, domains.join(" "), webhookPage, deliveryHeader],
    ...[signatures.map(({ header, prefix, length = "" }) => `${header}: ${prefix}${length}`).join(", ")],
    ...[more.keys ?? "", more.anyRepository ?? false, more.secretField?.(secret) ?? "", more.secretField?.(key) ?? ""],
  ]);
  const gitlab = ["x-gitlab-event", "Settings > Webhooks > Add new webhook", "idempotency-key"] as const;
  const gitlabSignatures = "webhook-signature: v1, x-gitlab-token: ";
  const sha256 = (header: string) => `${header}: sha256=71`;
  const plain = ["", false, "", ""];
  const byGithub = ["x-github-delivery", sha256("x-hub-signature-256")];
  const tokens = ["some", false, "secret token", "signing token"];
  const expected = [
    [
      "github",
      "x-github-delivery",
      "github.com ssh.github.com",
      "Settings > Webhooks > Add webhook",
      ...byGithub,
      ...plain,
    ],
    ["gitlab", gitlab[0], "gitlab.com altssh.gitlab.com", gitlab[1], gitlab[2], gitlabSignatures, ...tokens],
    ["gitlab-self-managed", gitlab[0], "", gitlab[1], gitlab[2], gitlabSignatures, ...tokens],
    ["gitea", "x-gitea-event", "", "Settings > Webhooks > Add webhook > Gitea", ...byGithub, ...plain],
    [
      "forgejo",
      "x-forgejo-event",
      "codeberg.org",
      "Settings > Webhooks > Add webhook > Forgejo",
      ...byGithub,
      ...plain,
    ],
    [
      ...["gogs", "x-gogs-event", "", "Settings > Webhooks > Add a new webhook > Gogs", "x-github-delivery"],
      ...["x-gogs-signature: 64", ...plain],
    ],
    [
      ...["bitbucket", "x-hook-uuid", "bitbucket.org altssh.bitbucket.org"],
      ...["Repository settings > Webhooks > Add webhook", "x-request-uuid", sha256("x-hub-signature"), ...plain],
    ],
    [
      ...["bitbucket-data-center", "x-event-key", "", "Repository settings > Webhooks > Create webhook"],
      ...["x-request-id", sha256("x-hub-signature"), ...plain],
    ],
    [
      ...[
        "standard-webhooks",
        "webhook-id",
        "",
        "the sender's page of webhooks",
        "webhook-id",
        "webhook-signature: v1",
      ],
      ...["all", true, "signing secret", "signing secret"],
    ],
  ];
  expect(rows.map(String).sort()).toEqual(expected.map(String).sort());
});

test("all header names are in lower case, as Node and Cloudflare's rules find them", () => {
  for (const [, { signatures, deliveryHeader, mark }] of all)
    for (const name of [deliveryHeader, mark, ...signatures.map(({ header }) => header)])
      expect(name).toBe(name.toLowerCase());
});

test.each(gitHostNames)("a delivery of %s is recognised, whatever other marks it carries", (name) => {
  const found = markedBy(senders[name].headers(Buffer.alloc(0), senders[name].secret))?.name;
  expect(found).toBe(name === "gitlab-self-managed" ? "gitlab" : name);
});

describe.each(gitHostNames)("a hook of %s", (gitHost) => {
  const { secret: own, push: payload, headers } = senders[gitHost];
  const body = bytes(payload);
  const start = () =>
    receiver({ hooks: [{ name: "site", gitHost, branch: "main" }], secrets: new Map([["site", [own]]]) });
  const sent = (headers: Headers, bytes: Buffer = body) => deliveryOf(gitHost, { headers, body: bytes });
  let running: Running;
  afterEach(() => running.stop());

  test("accepts a signed push, and spools its commits under the git host's id", async () => {
    running = await start();
    expect((await running.send(sent(headers(body, own)))).status).toBe(202);
    const [[, spooled] = []] = running.spooled();
    const commits = gitHost === "standard-webhooks" ? { before: null, after: null } : { before: two, after: one };
    expect(spooled).toMatchObject({ ref: "refs/heads/main", ...commits });
    expect(spooled?.delivery).toBe(
      headers(body, own)[gitHosts[gitHost].deliveryHeader]?.replace(/^msg_.*/, spooled!.delivery),
    );
    expect(running.journal[0]).toMatchObject({ status: 202, delivery: spooled?.delivery });
  });

  test("rejects with 401, and spools nothing of, a delivery without a signature or with a wrong one", async () => {
    running = await start();
    for (const [what, signed, body] of badlySigned(gitHost))
      expect([what, (await running.send(sent(signed, body))).status]).toEqual([what, 401]);
    expect(running.spooled()).toEqual([]);
  });

  test("spools one delivery once, however often it comes while it waits", async () => {
    running = await start();
    const signed = headers(body, own);
    for (let i = 0; i < 3; i++) expect((await running.send(sent(signed))).status).toBe(202);
    expect(running.spooled()).toHaveLength(1);
  });

  test("rejects a body that is no JSON object with 400", async () => {
    running = await start();
    const text = Buffer.from("[]");
    expect((await running.send(sent(headers(text, own), text))).status).toBe(400);
    expect(running.spooled()).toEqual([]);
  });
});

test("a delivery of another git host than the hook's is named in the journal", async () => {
  const running = await receiver({ hooks: [{ name: "site", gitHost: "github", branch: "main" }] });
  await running.send(delivery({ signature: null, headers: { "x-gitlab-event": "Push Hook" } }));
  const { "x-github-delivery": _, ...rest } = delivery({ signature: null }).headers;
  await running.send({ ...delivery(), headers: { ...rest, "x-gitlab-event": "Push Hook" } });
  const [own, other] = running.journal.map(({ reason }) => reason);
  expect(own).not.toContain("gitlab");
  expect(other).toMatch(
    /^X-Hub-Signature-256 is missing.*headers are those of gitlab, and the hook's gitHost is github\.$/,
  );
  await running.stop();
});

test.each(pushes)("what a push means at %s %#", (name, payload, headers, expected) =>
  expect(decided(name, payload, headers)).toEqual(expected),
);

test("Bitbucket's published example of a signature is accepted", () => {
  const headers = { "x-hub-signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9" };
  for (const name of ["bitbucket", "bitbucket-data-center"] as const) {
    const { verify } = gitHosts[name];
    expect(verify("It's a Secret to Everybody", Buffer.from("Hello World!"), headers)).toBe(true);
    expect(verify("It's a Secret to Everybody", Buffer.from("Hello World"), headers)).toBe(false);
  }
});

describe("Standard Webhooks", () => {
  // The example that the specification's libraries test with.
  const example = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const published = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const body = Buffer.from('{"test": 2432232314}');
  const { verify, signatureFault } = gitHosts["standard-webhooks"];
  const at = (seconds: number) => vi.useFakeTimers({ now: seconds * 1000, toFake: ["Date"] });

  test("the example of the specification is accepted within five minutes of its time, in either direction", () => {
    for (const [seconds, fits] of [
      [0, true],
      [300, true],
      [-300, true],
      [301, false],
      [-301, false],
    ] as const) {
      at(1614265330 + seconds);
      expect([seconds, verify(published, body, example)]).toEqual([seconds, fits]);
      expect(signatureFault(example) === undefined).toBe(fits);
    }
    at(1614265330 + 301);
    expect(signatureFault(example)).toBe(
      "the delivery is 301 s old, more than 300: it is a replay, or a clock is wrong",
    );
    at(1614265330 - 400);
    expect(signatureFault(example)).toContain("the delivery is 400 s ahead of this host's clock");
  });

  test("id and timestamp are signed", () => {
    at(1614265330);
    expect(verify(published, body, { ...example, "webhook-id": "msg_other" })).toBe(false);
    expect(verify(published, body, { ...example, "webhook-timestamp": "1614265331" })).toBe(false);
  });

  test("one of several signatures is enough, and those of other versions count as none", () => {
    at(1614265330);
    const other = `v1,${"A".repeat(43)}=`;
    const signed = (value: string) => verify(published, body, { ...example, "webhook-signature": value });
    const own = example["webhook-signature"];
    for (const value of [`${other} ${own}`, `${own} ${other}`, `v1a,${"B".repeat(86)}== ${own}`, `v1,short ${own}`])
      expect(signed(value)).toBe(true);
    const ofVersion2 = own.replace("v1,", "v2,");
    for (const value of [other, ofVersion2, `${other} ${ofVersion2}`, own.slice(3), `${own},${own}`, ""])
      expect(signed(value)).toBe(false);
  });

  test("a secret that is no key signs nothing", () => {
    at(1614265330);
    const text = "0123456789".repeat(4);
    const bytes = Buffer.from(text.slice("whsec_".length), "base64");
    const mac = createHmac("sha256", bytes).update("msg.1614265330.").update(body).digest("base64");
    const headers = { ...example, "webhook-id": "msg", "webhook-signature": `v1,${mac}` };
    expect(verify(writtenKey(bytes), body, headers)).toBe(true);
    expect(verify(text, body, headers)).toBe(false);
  });

  test.each([
    ["no signature", "webhook-signature", undefined, "webhook-signature is missing"],
    ["no id", "webhook-id", undefined, "webhook-id or webhook-timestamp is missing"],
    ["no timestamp", "webhook-timestamp", undefined, "webhook-id or webhook-timestamp is missing"],
    ["a timestamp that is no number", "webhook-timestamp", "1e9", "webhook-id or webhook-timestamp is missing"],
    ["half a signature", "webhook-signature", "v1,g0hM", "holds no v1,"],
  ])("%s is rejected before the body is read", (_, name, value, fault) => {
    at(1614265330);
    const headers = { ...example, [name]: value };
    expect(signatureFault(headers)).toContain(fault);
    expect(verify(published, body, headers)).toBe(false);
  });

  test.each([
    ["32 bytes", key, true],
    ["24 bytes", writtenKey(Buffer.alloc(24, 1)), true],
    ["64 bytes", writtenKey(Buffer.alloc(64, 1)), true],
    ["23 bytes", writtenKey(Buffer.alloc(23, 1)), false],
    ["65 bytes", writtenKey(Buffer.alloc(65, 1)), false],
    ["no prefix", key.slice(6), false],
    ["no padding", key.replace(/=+$/, ""), false],
    ["a character outside base64", key.replace("B", "!"), false],
  ])("a key of %s", (_, text, fits) => expect(isKey(text)).toBe(fits));
});

describe("GitLab's tokens", () => {
  const { verify, signatureFault } = gitHosts.gitlab;
  const body = bytes(gitlabPayload());
  const token = { "x-gitlab-token": secret };
  const signed = (with_: string) => standardHeaders(body, with_);

  test("the secret token is accepted where the hook's secret is one", () => {
    expect(verify(secret, body, token)).toBe(true);
    for (const other of [`${secret}x`, secret.slice(1), secret.toUpperCase(), "", `${secret}, ${secret}`])
      expect([other, verify(secret, body, { "x-gitlab-token": other })]).toEqual([other, false]);
    expect(verify("", body, { "x-gitlab-token": "" })).toBe(false);
    expect(signatureFault({ "x-gitlab-token": "" })).toContain("are missing");
  });

  test("a signing token that each delivery carries as a secret token is not accepted", () => {
    expect(verify(key, body, { "x-gitlab-token": key })).toBe(false);
  });

  test("during a change of the kind of token either is accepted, as long as the hook has both secrets", () => {
    for (const headers of [token, signed(key), { ...token, ...signed(key) }]) {
      expect(signatureFault(headers)).toBeUndefined();
      expect([key, secret].some((each) => verify(each, body, headers))).toBe(true);
    }
    expect(verify(key, body, { ...token, ...signed(key) })).toBe(true);
    expect(verify(key, body, token)).toBe(false);
    expect(verify(secret, body, signed(key))).toBe(false);
  });

  test("the ids that come with either token prove nothing", () => {
    expect(signatureFault({ "webhook-id": "1", "webhook-timestamp": "1" })).toContain("are missing");
  });

  test("a captured delivery with a signing token is rejected after five minutes", () => {
    const captured = signed(key);
    expect(verify(key, body, captured)).toBe(true);
    vi.useFakeTimers({ now: Date.now() + 302_000, toFake: ["Date"] });
    expect(signatureFault(captured)).toContain("it is a replay, or a clock is wrong");
    expect(verify(key, body, captured)).toBe(false);
  });
});
