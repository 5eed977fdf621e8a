/** The signature check against known answers, which do not come from this project's code. */
import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hmacSignature } from "../../../service/git-hosts/hmac-signature.ts";

/** From GitHub's documentation of webhooks. */
const secret = "It's a Secret to Everybody";
const body = Buffer.from("Hello, World!");
const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

const hub = hmacSignature("X-Hub-Signature-256", "sha256=");
const headersOf = (value: string | undefined) => (value === undefined ? {} : { "x-hub-signature-256": value });
const verify = (key: string, bytes: Buffer, value: string | undefined) => hub.verify(key, bytes, headersOf(value));
const isWellFormed = (value: string | undefined) => hub.signatureFault(headersOf(value)) === undefined;

test("verify accepts the example in GitHub's documentation", () => expect(verify(secret, body, signature)).toBe(true));

describe("RFC 4231", () => {
  test.each([
    [
      "1",
      Buffer.alloc(20, 0x0b).toString("latin1"),
      "Hi There",
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    ],
    ["2", "Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"],
  ])("test case %s", (_, key, text, hex) => {
    expect(verify(key, Buffer.from(text), `sha256=${hex}`)).toBe(true);
  });
});

test("verify rejects another secret's signature", () => expect(verify("another", body, signature)).toBe(false));

describe("verify returns false, and does not throw, for a header that is", () => {
  const hex = signature.slice("sha256=".length);
  test.each([
    ["absent", undefined],
    ["empty", ""],
    ["the prefix alone", "sha256="],
    ["hex alone", hex],
    ["short", signature.slice(0, -2)],
    ["long", `${signature}00`],
    ["capital", `sha256=${hex.toUpperCase()}`],
    ["two", `${signature}, ${signature}`],
    ["a line end after it", `${signature}\n`],
    ["SHA-1's prefix", `sha1=${hex}`],
    ["another digit", signature.replace(/.$/, "8")],
  ])("%s", (_, header) => {
    expect(verify(secret, body, header)).toBe(false);
    if (header !== signature.replace(/.$/, "8")) expect(isWellFormed(header)).toBe(false);
  });

  test("signed with the empty secret", () => {
    const unkeyed = `sha256=${createHmac("sha256", "").update(body).digest("hex")}`;
    expect(isWellFormed(unkeyed)).toBe(true);
    expect(verify("", body, unkeyed)).toBe(false);
  });
});
