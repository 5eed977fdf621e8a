/** The signature check against known answers, which do not come from this project's code. */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { hmacSignature } from "../../../service/git-hosts/hmac-signature.ts";

/** From GitHub's documentation of webhooks. */
const secret = "It's a Secret to Everybody";
const body = Buffer.from("Hello, World!");
const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const hex = signature.slice("sha256=".length);

const hub = hmacSignature("X-Hub-Signature-256", "sha256=");
const headersOf = (value: string | undefined) => (value === undefined ? {} : { "x-hub-signature-256": value });
const verify = (key: string, bytes: Buffer, value: string | undefined) => hub.verify(key, bytes, headersOf(value));
const fault = (value: string | undefined) => hub.signatureFault(headersOf(value));
const by = (key: string) => `sha256=${createHmac("sha256", key).update(body).digest("hex")}`;

test("verify accepts the example in GitHub's documentation", () => expect(verify(secret, body, signature)).toBe(true));

describe("without a hash, and without an exception, a signature is rejected that is", () => {
  test.each([
    ["absent", undefined],
    ["empty", ""],
    ["the prefix alone, which Gitea sends without a secret", "sha256="],
    ["the digits without a prefix", hex],
    ["the first 20 characters of the right one", signature.slice(0, 20)],
    ["one digit long", `${signature}0`],
    ["in capitals", `sha256=${hex.toUpperCase()}`],
    ["no hexadecimal number", `sha256=${"g".repeat(64)}`],
    ["right, and twice in one header", `${signature}, ${signature}`],
    ["right, with a line end after it", `${signature}\n`],
    ["SHA-1's", `sha1=${createHmac("sha1", secret).update(body).digest("hex")}`],
  ])("%s", (_, value) => {
    expect(verify(secret, body, value)).toBe(false);
    expect(fault(value)).toBe(
      !value || value === "sha256="
        ? `X-Hub-Signature-256 is ${value === undefined ? "missing" : "empty"}. Set the hook's secret at the git host.`
        : "X-Hub-Signature-256 is not sha256= and 64 hexadecimal digits",
    );
  });
});

describe("a well-formed signature is rejected", () => {
  test.each([
    ["with one other digit", signature.replace(/.$/, "8")],
    ["by a default secret, such as Probot's", by("development")],
    ["by the empty secret", by("")],
  ])("%s", (_, value) => expect([fault(value), verify(secret, body, value)]).toEqual([undefined, false]));

  test("where the hook's own secret is empty, with which every sender can sign", () => {
    expect(verify("", body, by(""))).toBe(false);
  });
});

test("Gogs has no prefix", () => {
  const fault = (value: string) => hmacSignature("X-Gogs-Signature", "").signatureFault({ "x-gogs-signature": value });
  expect(fault(signature)).toBe("X-Gogs-Signature is not 64 hexadecimal digits");
  expect(fault("")).toBe("X-Gogs-Signature is empty. Set the hook's secret at the git host.");
});

test("each kind of signature is compared in constant time, whatever the guess", () => {
  const text = (module: string) =>
    readFileSync(new URL(`../../../service/git-hosts/${module}`, import.meta.url), "utf8");
  // A difference of nanoseconds is in no test's reach.
  expect(text("hmac-signature.ts")).toContain("given.length === expected.length && timingSafeEqual(given, expected)");
  expect(text("standard-signature.ts")).toContain(".some((each) => isHmac(");
  expect(text("gitlab-signature.ts")).toContain("timingSafeEqual(sha256(secret), sha256(given))");
});
