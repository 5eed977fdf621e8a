/** What the operator's environment may have set. */
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { Root } from "../host/namespace.ts";

const notTaken = (name: string) => `pushgate: no request goes through ${name}, which needs a URL such as`;
test.each([
  ["HTTPS_PROXY", "http://127.0.0.1:PORT", {}, "CONNECT api.example.org:443", ",", ""],
  ["https_proxy", "http://127.0.0.1:PORT", { no_grpc_proxy: "mine" }, "CONNECT api.example.org:443", "mine", ""],
  ["https_proxy", "http://127.0.0.1:PORT", { NO_PROXY: "*" }, "", ",", ""],
  ["HTTPS_PROXY", "127.0.0.1:PORT", {}, "", ",", notTaken("HTTPS_PROXY")],
  ["https_proxy", "", {}, "", "undefined", ""],
])("of %s=%s with %o requests make use, and the engine none", async (name, value, more, used, past, says) => {
  const asked: string[] = [];
  const proxy = createServer().on("connect", ({ method, url }, socket) => {
    asked.push(`${method} ${url}`);
    socket.end("HTTP/1.1 502 none\r\n\r\n");
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { PATH = "" } = process.env;
  const env = { PATH, [name]: value.replace("PORT", String((proxy.address() as AddressInfo).port)), ...more };
  const script =
    "console.log(process.env.no_grpc_proxy); require('https').get('https://api.example.org').on('error', () => {})";
  const ran = await promisify(execFile)("node", ["--import", "pushgate/fast-start", "-e", script], { env });
  proxy.close();
  expect([asked.join(), ran.stdout.trim()]).toEqual([used, past]);
  expect(ran.stderr.slice(0, says.length || undefined)).toBe(says);
});

test("a command that waits for what can no longer come fails", async () => {
  const root = new Root();
  for (const name of ["node-version.cjs", "fast-start.cjs"]) root.write(name, "");
  root.write("main.ts", "export const pushgate = () => new Promise(() => {});");
  copyFileSync(new URL("../../../infra/cli/pushgate.cjs", import.meta.url), root.at("pushgate.cjs"));
  const { status, stderr } = spawnSync(process.execPath, [root.at("pushgate.cjs")], { encoding: "utf8" });
  expect([status, stderr]).toEqual([1, "pushgate: the command ended before its work did.\n"]);
});

test("git checks every text out with LF, whatever core.autocrlf says", () => {
  const texts = ["infra/apply/apply.sh", "infra/index.ts", "package-lock.json"];
  const attributes = execFileSync("git", ["check-attr", "eol", "--", ...texts], { encoding: "utf8" });
  expect(attributes).toBe(texts.map((path) => `${path}: eol: lf\n`).join(""));
});
