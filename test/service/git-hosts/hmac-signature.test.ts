/** The signature check against known answers, which do not come from this project's code. */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hmacSignature } from "../../../service/git-hosts/hmac-signature.ts";

/** From GitHub's documentation of webhooks. */
const secret = "It's a Secret to Everybody";
const body = Buffer.from("Hello, World!");
const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const hex = signature.slice("sha256=".length);

const hub = hmacSignature("X-Hub-Signature-256", "sha256=");
const headersOf = (value: string) => ({ "x-hub-signature-256": value });
const verify = (key: string, value: string) => hub.verify(key, body, headersOf(value));

test("verify accepts the example in GitHub's documentation, and no other digit or empty secret", () => {
  expect(verify(secret, signature)).toBe(true);
  expect(verify(secret, signature.replace(/.$/, "8"))).toBe(false);
  // Every sender can sign with it.
  expect(verify("", `sha256=${createHmac("sha256", "").update(body).digest("hex")}`)).toBe(false);
});

// git-hosts.test.ts has none, an empty one and the prefix alone.
test.each([
  ["the digits without a prefix", hex],
  ["the first 20 characters of the right one", signature.slice(0, 20)],
  ["one digit long", `${signature}0`],
  ["in capitals", `sha256=${hex.toUpperCase()}`],
  ["no hexadecimal number", `sha256=${"g".repeat(64)}`],
  ["right, and twice in one header", `${signature}, ${signature}`],
  ["right, with a line end after it", `${signature}\n`],
  ["SHA-1's", `sha1=${createHmac("sha1", secret).update(body).digest("hex")}`],
])("without a hash, and without an exception, a signature is rejected that is %s", (_, value) => {
  expect(verify(secret, value)).toBe(false);
  expect(hub.signatureFault(headersOf(value))).toBe("X-Hub-Signature-256 is not sha256= and 64 hexadecimal digits");
});

test("each kind of signature is compared in constant time, whatever the guess", () => {
  const text = (module: string) =>
    readFileSync(new URL(`../../../service/git-hosts/${module}`, import.meta.url), "utf8");
  // A difference of nanoseconds is in no test's reach.
  expect(text("hmac-signature.ts")).toContain("given.length === expected.length && timingSafeEqual(given, expected)");
  expect(text("standard-signature.ts")).toContain(".some((each) => isHmac(");
  expect(text("gitlab-signature.ts")).toContain("timingSafeEqual(sha256(secret), sha256(given))");
});
