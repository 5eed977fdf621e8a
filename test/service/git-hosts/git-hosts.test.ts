/** The table of git hosts, and how the receiver verifies and reads the deliveries of each. */
import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { afterEach, describe, expect, test, vi } from "vitest";
import { networks } from "../../../infra/networks.ts";
import { gitHostNames, gitHosts, markedBy } from "../../../service/git-hosts/index.ts";
import { type Decision, decide } from "../../../service/git-hosts/payload.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { isKey, writtenKey } from "../../../service/git-hosts/standard-signature.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { badlySigned, pushes } from "../../fakes/pushes.ts";
import { bytes, deliveryOf, gitlabPayload, senders, standardHeaders } from "../../fakes/senders.ts";
import { receiver } from "../receiver/harness.ts";

const all = Object.entries(gitHosts);
const [one, two, zeros] = ["1".repeat(40), "2".repeat(40), "0".repeat(40)] as const;
const { secret } = senders.github;
const key = senders.gitlab.secret;

afterEach(() => vi.useRealTimers());

test("a git host with ranges in networks.ts has a port of its own below the other sockets', and a kind for its other servers", () => {
  const published = all.filter(([, { publishedPort }]) => publishedPort !== undefined);
  expect(published.every(([, { publishedPort: port }]) => port! > 9460 && port! < 9470)).toBe(true);
  expect(new Set(published.map(([, { publishedPort: port }]) => port)).size).toBe(published.length);
  expect(published).toEqual(all.filter(([, { elsewhere }]) => elsewhere !== undefined));
  const inNetworks = Object.keys(networks).flatMap((key) => /^(\w+)Hooks$/.exec(key)?.[1] ?? []);
  expect(inNetworks.sort()).toEqual(published.map(([name]) => name).sort());
});

test.each(gitHostNames)(
  "%s: a push is recognised, has its commits, and is accepted by its right signature alone",
  (gitHost) => {
    const { secret, push, headers } = senders[gitHost];
    const { signatureFault, verify, payload } = gitHosts[gitHost];
    const body = bytes(push);
    const signed = headers(body, secret);
    const marked = markedBy(signed);
    expect(marked?.name).toBe(gitHost.replace(/^(gitlab-self-managed|github-enterprise)$/, (own) => own.slice(0, 6)));
    expect(signed[marked!.deliveryHeader]).toMatch(gitHost === "standard-webhooks" ? /^msg_/ : /^f3a1$/);
    const commits = gitHost === "standard-webhooks" ? { before: null, after: null } : { before: two, after: one };
    expect(decide(payload, signed, body, "main")).toEqual({ push: { ref: "refs/heads/main", ...commits } });
    expect([signatureFault(signed), verify(secret, body, signed)]).toEqual([undefined, true]);
    for (const [what, headers, bytes] of badlySigned(gitHost))
      expect([what, signatureFault(headers) === undefined && verify(secret, bytes, headers)]).toEqual([what, false]);
  },
);

test("a delivery of another git host than the hook's is named in the journal", async () => {
  await using running = await receiver();
  const sent = delivery({ signature: null, headers: { "x-gitlab-event": "Push Hook" } });
  await running.send(sent);
  const { "x-github-delivery": _, ...headers } = sent.headers;
  await running.send({ ...sent, headers });
  const [own, other] = running.journal.map(({ reason }) => reason);
  expect(own).not.toContain("gitlab");
  const reason = /^the headers are those of gitlab, and the hook's gitHost is github\. Correct hooks\[\]\.gitHost/;
  expect(other).toMatch(reason);
});

test("a repository's address names host and port, and another text neither", () => {
  const addresses = ["https://H/a", "ssh://g@h/a", "https://h:8443/a", "g@h:a/b", "nothing"];
  const found = addresses.map(repositoryOf).map(({ host, port, names }) => [host, port, names.join()]);
  expect(found).toEqual([...[443, 22, 8443].map((port) => ["h", port, "a"]), ["h", 22, "a,b"], ["", 22, ""]]);
});

test.each(pushes)("what a push means at %s %#", (name, payload, more, expected) => {
  const headers = { ...senders[name].headers(Buffer.alloc(0), senders[name].secret), ...more };
  expect(decide(gitHosts[name].payload, headers, bytes(payload), "main")).toEqual(expected);
});

describe("what GitHub's delivery means", () => {
  const noObject = { fault: "the body is not a JSON object" };
  const noRef = { fault: "the push names no ref" };
  const ofMain = (more: object) => JSON.stringify({ ref: "refs/heads/main", before: two, after: one, ...more });
  const toRef = (ref: unknown) => JSON.stringify({ ref });
  const toMain = { push: { ref: "refs/heads/main", before: two, after: one } };
  const deletion = { ignored: "deletion of main" };
  const long = "x".repeat(255);
  const meant = (text: string, event = "push", branch = "main") =>
    decide(gitHosts.github.payload, { "x-github-event": event }, Buffer.from(text), branch);

  test.each<[string, string, Decision]>([
    ["nothing", "", noObject],
    ["a list", '[{"ref":"refs/heads/main"}]', noObject],
    ["null", "null", noObject],
    ["a text", '"refs/heads/main"', noObject],
    ["a byte order mark before it", `\ufeff${ofMain({})}`, noObject],
    ["no ref", "{}", noRef],
    ["a list as ref", toRef(["refs/heads/main"]), noRef],
    ["a ref in __proto__ only", '{"__proto__":{"ref":"refs/heads/main"}}', noRef],
    ["the branch", ofMain({}), toMain],
    ["null in all other fields", ofMain({ commits: null, sender: null, repository: null, head_commit: null }), toMain],
    ["names of prototypes", ofMain({ constructor: { prototype: { deleted: true } } }), toMain],
    ["a deletion in __proto__", `{"__proto__":{"deleted":true},${ofMain({}).slice(1)}`, toMain],
    ["a branch that ends with it", toRef("refs/heads/x/main"), { ignored: "refs/heads/x/main is not the branch main" }],
    ["a tag of its name", toRef("refs/tags/main"), { ignored: "tag main" }],
    ["a long tag", toRef(`refs/tags/${long}y`), { ignored: `tag ${long}` }],
    ["a long ref", toRef(`${long}y`), { ignored: `${long} is not the branch main` }],
    ["a deletion", ofMain({ deleted: true, after: zeros, head_commit: null }), deletion],
    ["a deletion that only the commit id shows", ofMain({ after: zeros }), deletion],
    ["a deletion in SHA-256", ofMain({ after: "0".repeat(64) }), deletion],
  ])("with %s", (_, text, decision) => expect(meant(text)).toEqual(decision));

  test("is a push to a branch of any characters, and nothing to build where the event is not a push", () => {
    const ref = "refs/heads/新分支/50%#ünï";
    expect(meant(toRef(ref), "push", "新分支/50%#ünï")).toEqual({ push: { ref, before: null, after: null } });
    expect(meant("{}", "ping")).toEqual({ ignored: "ping" });
    expect(meant("[]", "ping")).toEqual(noObject);
    expect(meant("{}", "issues")).toEqual({ ignored: "event issues is not a push" });
    expect(meant("{}", "")).toEqual({ ignored: "event  is not a push" });
    const missing = decide(gitHosts.github.payload, {}, Buffer.from("{}"), "main");
    expect(missing).toEqual({ ignored: "event missing is not a push" });
  });

  test("is a push to a branch with a preview, or its deletion, beside one to the hook's own branch", () => {
    const previews = ["feature/*", "staging", "x*x"];
    const of = (form: typeof gitHosts.github.payload, headers: object, payload: object) =>
      decide(form, headers as never, bytes(payload), "main", previews);
    const github = (ref: string, more = {}) =>
      of(gitHosts.github.payload, { "x-github-event": "push" }, { ref, before: one, after: two, ...more });
    const preview = (ref: string, after = two) => ({ preview: { ref, before: one, after } });
    for (const ref of ["feature/a/b", "feature/", "staging", "xx", "xyx"].map((name) => `refs/heads/${name}`))
      expect(github(ref)).toEqual(preview(ref));
    expect(github("refs/heads/staging", { deleted: true, after: zeros })).toEqual(preview("refs/heads/staging", zeros));
    expect(github("refs/heads/main")).toEqual({ push: { ref: "refs/heads/main", before: one, after: two } });
    for (const ref of ["refs/heads/x", "refs/heads/staging2", "refs/tags/staging", "refs/pull/1/head"])
      expect(github(ref)).toHaveProperty("ignored");
    const changes = (...all: object[]) =>
      of(gitHosts["bitbucket-data-center"].payload, { "x-event-key": "repo:refs_changed" }, { changes: all });
    const change = (name: string, type = "UPDATE") => ({
      refId: `refs/heads/${name}`,
      fromHash: one,
      toHash: two,
      type,
    });
    expect(changes(change("other"), change("staging"), change("main"))).toEqual({
      ...{ push: { ref: "refs/heads/main", before: one, after: two } },
      ...preview("refs/heads/staging"),
    });
    expect(changes(change("main", "DELETE"), change("staging"))).toEqual(preview("refs/heads/staging"));
  });

  test("has a commit id of 40 or 64 hexadecimal digits, and null in place of anything else", () => {
    const kept = (id: unknown) => (meant(ofMain({ before: id })) as { push: { before: unknown } }).push.before;
    for (const id of [zeros, "9a".repeat(32), `0${"a".repeat(38)}0`]) expect(kept(id)).toBe(id);
    for (const length of [39, 41, 63, 65]) expect(kept("a".repeat(length))).toBe(null);
    for (const id of ["A".repeat(40), "--upload-pack=evil", ["x"]]) expect(kept(id)).toBe(null);
    expect(meant(ofMain({ after: `0${"a".repeat(38)}0` }))).toHaveProperty("push");
  });

  test("is a push for each push to a branch among the payloads that GitHub publishes, and for no other", () => {
    const examples: { name: string; examples: Record<string, unknown>[] }[] = createRequire(import.meta.url)(
      "@octokit/webhooks-examples",
    );
    const all = examples.flatMap(({ name, examples }) => examples.map((payload) => ({ name, payload })));
    const pushes = all.filter(({ name, payload }) => {
      const branch = /^refs\/heads\/(.+)$/.exec(String(payload.ref))?.[1];
      const body = bytes(payload);
      const decision = decide(gitHosts.github.payload, { "x-github-event": name }, body, branch ?? "main");
      expect([name, "push" in decision]).toEqual([name, name === "push" && !!branch && payload.deleted !== true]);
      return "push" in decision;
    });
    expect([examples.length > 50, pushes.length > 0]).toEqual([true, true]);
  });
});

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
    const faultAt = (seconds: number) => {
      at(1614265330 + seconds);
      expect(verify(published, body, example)).toBe(Math.abs(seconds) <= 300);
      return signatureFault(example);
    };
    expect([0, 300, -300].map(faultAt)).toEqual([undefined, undefined, undefined]);
    expect(faultAt(301)).toBe("the delivery is 301 s old, more than 300: it is a replay, or a clock is wrong");
    expect(faultAt(-301)).toContain("the delivery is 301 s ahead of this host's clock");
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
  const { verify, sign, signatures, signatureFault } = gitHosts.gitlab;
  const body = bytes(gitlabPayload());
  const token = { "x-gitlab-token": secret };
  const signed = (with_: string) => standardHeaders(body, with_);

  test("the secret token is accepted where the hook's secret is one", () => {
    expect(verify(secret, body, token)).toBe(true);
    expect([sign(secret, "", ""), signatures.at(-1)]).toEqual([token, { header: "x-gitlab-token", prefix: "" }]);
    for (const other of [`${secret}x`, secret.slice(1), secret.toUpperCase(), "", `${secret}, ${secret}`])
      expect([other, verify(secret, body, { "x-gitlab-token": other })]).toEqual([other, false]);
    expect(verify("", body, { "x-gitlab-token": "" })).toBe(false);
    expect(signatureFault({ "x-gitlab-token": "" })).toMatch(/is missing\. Set the hook's secret/);
    // A signing token that each delivery carries as a secret token.
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

  test("a token in the other one's field of GitLab's form is named, with the field that the hook needs", async () => {
    const { mismatch } = gitHosts.gitlab;
    const stale = standardHeaders(body, key, 1);
    expect(mismatch!(key, token)).toMatch(/^X-Gitlab-Token came without webhook-signature, .* signing token at the/);
    expect(mismatch!(secret, signed(key))).toMatch(
      /^webhook-signature came without X-Gitlab-Token, .* secret token at/,
    );
    expect(mismatch!(key, { ...stale, ...token })).toContain("s old, more than 300");
    expect(mismatch!(key, signed(key))).toBeUndefined();
    const hooks = [{ name: "site", gitHost: "gitlab", branch: "main" }] as const;
    await using running = await receiver({ hooks, secrets: new Map([["site", [secret]]]) });
    await running.send(deliveryOf("gitlab", { headers: { "x-gitlab-token": key } }));
    expect(running.journal[0]?.reason).toMatch(/^X-Gitlab-Token is not the hook's secret\. Enter the one/);
  });

  test("the ids that come with either token prove nothing", () => {
    expect(signatureFault({ "webhook-id": "1", "webhook-timestamp": "1" })).toContain("X-Gitlab-Token is missing");
  });
});
