/** Mail leaves by the host's own sendmail, in a unit with fixed addresses behind a socket (decision 027). */
import { createConnection } from "node:net";

/** RFC 2047: 11 characters are at most 44 bytes, and a word then 72 characters of the 75 allowed. At most 132 characters. */
export const encodedWords = (text: string): string =>
  (text.match(/.{1,11}/gsu) ?? [])
    .slice(0, 12)
    .map((part) => `=?utf-8?B?${Buffer.from(part).toString("base64")}?=`)
    .join("\n ");

/** RFC 2045 */
export const base64Lines = (text: string): string =>
  Buffer.from(text.replaceAll("\n", "\r\n"))
    .toString("base64")
    .replace(/.{76}(?=.)/g, "$&\n");

/** `seconds`: without a byte of an answer. */
export async function handOver(socket: string, message: string, seconds: number) {
  const connection = createConnection({ path: socket, allowHalfOpen: true });
  connection.setTimeout(seconds * 1000, () => connection.destroy(new Error(`no answer within ${seconds} s`)));
  connection.end(message);
  let answer = "";
  try {
    for await (const part of connection) {
      answer += part;
      if (answer === "sent\n") return { kind: "sent", reason: "sent" } as const;
    }
  } catch (error) {
    answer += (error as Error).message;
  }
  const reason = `sendmail did not take it: ${answer || "no answer"}. Read: journalctl -u 'pushgate-mail-*'`;
  return { kind: "delayed", reason } as const;
}
