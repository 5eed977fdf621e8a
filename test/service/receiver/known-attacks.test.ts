/**
 * What went wrong at other receivers of webhooks, and what an attacker tries: the test that shows what pushgate does
 * instead. Titles are the beginning of a test's or a describe's, or a row of its table.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const service = "test/service";
const receiver = `${service}/receiver`;
const rejections = `${receiver}/rejections.test.ts`;
const meaning = `${service}/git-hosts/git-hosts.test.ts`;
const signature = `${service}/git-hosts/hmac-signature.test.ts`;
const [proxy, rebuild] = ["test/infra/host/proxy.test.ts", "test/hosts/rebuild"];

test.each<readonly [mistake: string, file: string, title: string]>([
  // The signature.
  ["a hook without a secret at the git host", signature, "the prefix alone, which Gitea sends without a secret"],
  ["the beginning of a signature is enough", signature, "the first 20 characters of the right one"],
  ["a default secret", signature, "by a default secret, such as Probot's"],
  ["an empty secret, with which every sender can sign", signature, "where the hook's own secret is empty"],
  ["a comparison whose time says how much is right", signature, "each kind of signature is compared in constant time"],
  ["a downgrade to SHA-1", rejections, "another secret and the right SHA-1"],
  ["a header that comes twice", rejections, "that are both right"],
  ["the secret of another hook", rejections, "the secret of another hook of the same repository"],
  ["a body that is parsed before it is verified", rejections, "no JSON, wrongly signed"],
  ["JSON that is parsed and written again", `${receiver}/app.test.ts`, "the receiver verifies the bytes as sent"],
  ["the short secret of a default", `${receiver}/settings.test.ts`, "a default one, such as Probot's"],
  // The body and the connection.
  ["a form, of which Gitea signs the JSON in it", rejections, "a form"],
  ["a compressed body that grows", rejections, "a gzipped body"],
  ["Express's limit of 100 kB", `${receiver}/app.test.ts`, "the receiver accepts the largest pushes"],
  ["a body longer than its signature", `${receiver}/wire.test.ts`, "the receiver accepts a body of exactly bodyBytes"],
  ["smuggling", `${receiver}/wire.test.ts`, "a length and chunks, as in request smuggling"],
  ["smuggling on the way to nginx", proxy, "a length and chunks, as in request smuggling"],
  ["smuggling on a kept connection to the receiver", proxy, "a stranger passes on an allowed sender's connection"],
  ["a slow sender", `${receiver}/wire.test.ts`, "a sender that does not end its headers or its body"],
  ["a slow sender at nginx", "test/hosts/suite/flood.test.ts", "500 slow clients"],
  ["a body over nginx's limit", proxy, "a push of 2 MiB and one of the declared size pass whole"],
  // The path, and what is logged.
  ["a path that a router reads as the hook's", rejections, "a delivery to %s: 404"],
  ["a token in the query that is logged", rejections, "a query"],
  ["a delivery id that is a path", `${receiver}/app.test.ts`, "the receiver replaces a delivery id"],
  ["control characters in the journal", `${receiver}/journal.test.ts`, "a journal line is JSON without control"],
  ["a secret in the journal", rejections, "and no line of the journal holds a secret"],
  ["a secret in a unit, a file or the state", "test/hosts/suite/up.test.ts", "units and journal contain no secret"],
  // What a delivery means.
  ["a deletion of Bitbucket, whose `new` is null", meaning, "what a push means at"],
  ["a tag of the branch's name", meaning, "a tag of its name"],
  ["pollution of prototypes", meaning, "names of prototypes"],
  ["a command in a branch's name", meaning, "a command as its name"],
  ["Gitea's and Forgejo's delivery taken for GitHub's", meaning, "%s: a push is recognised, has its commits"],
  ["one of a repository's hooks", "test/hosts/suite/deliveries.test.ts", "a push of %s is accepted for its hook alone"],
  // The source.
  ["a source outside the ranges, by its own address", proxy, "a source outside the hook's ranges"],
  ["a source after an allowed one", proxy, "a stranger passes on an allowed sender's connection where it is kept"],
  ["a list without effect", "test/infra/host/guard.test.ts", "without enforcement every foreign source is named"],
  ["a list of the proxy's addresses", proxy, "a delivery passes on both address families, and the receiver sees"],
  ["a forged X-Forwarded-For", proxy, "a forged X-Forwarded-For"],
  ["a forged X-Forwarded-For at the budget", `${receiver}/limiter.test.ts`, "answers 429 once the budget is used"],
  ["a rate by the wrong key", proxy, "nginx rejects a stranger above the rate with 429 and no other source"],
  ["an IPv6 source", "test/hosts/suite/leave.test.ts", "the receiver accepts a delivery despite ufw's default drop"],
  ["an IPv6 address that admits a /32", "test/infra/host/receiver.test.ts", "ranges are compared as systemd prints"],
  ["ranges that are out of date", "test/infra/networks.test.ts", "GitHub's list holds the three ranges of 2026-10-29"],
  // The spool and the build.
  ["a replay, and a redelivery taken for one", `${rebuild}/life.test.ts`, "a redelivery after failed builds, under"],
  ["replays that fill the disk", `${receiver}/spool.test.ts`, "has 10,000 files of a hook"],
  ["a replay of an old commit", `${service}/builder/run/build-pending.test.ts`, "the replay of an old delivery,"],
  ["a cache of deliveries that grows", `${receiver}/spool.test.ts`, "deliveries with the same id, one after another"],
  ["accepted work lost in a crash", `${receiver}/spool.test.ts`, "the spool syncs the file before it renames it"],
  ["a spool file half written", `${receiver}/spool.test.ts`, "openSpool makes the folders, and removes"],
  ["a spool file exchanged meanwhile", `${service}/builder/run/markers.test.ts`, "what a member puts into the folder"],
  ["a push lost", `${service}/builder/run/build-pending.test.ts`, "the first push of a burst is built at once"],
  ["a failed build reported as good", `${service}/builder/build/build.test.ts`, "the reason names a failing template"],
  ["a failed build published", `${service}/builder/build/build.test.ts`, "the gate rejects a build without layouts"],
  ["a truncated list of files", `${service}/builder/source/decide.test.ts`, "unknown changes start a build"],
  ["a cloud's metadata", `${rebuild}/hostile.test.ts`, "Hugo reads an address that the operator allows"],
  ["a command in a repository's names", `${service}/builder/source/git.test.ts`, "a hostile repository"],
  ["a lock that is not taken", `${rebuild}/units.test.ts`, "one builder runs for a site, however often it is started"],
  ["builds without a bound", `${service}/builder/run/build-pending.test.ts`, "the first push of a burst"],
  ["a reload that loses hooks", "test/hosts/suite/load.test.ts", "all of 2,000 deliveries while up changes a range"],
  ["a request to a payload's address", "test/infra/host/receiver.test.ts", "systemd rates the exposure of the"],
  ["an answer after the build", `${rebuild}/measure.test.ts`, "the builder adds at most three starts of Node to git"],
])("%s: %s", (_, file, title) => {
  const text = readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8");
  // As the name of a test, a group or a row, not in a comment.
  expect(text.split("\n").filter((line) => line.includes(title) && /^(?! *[/*]).*["`]/.test(line))).not.toEqual([]);
});
