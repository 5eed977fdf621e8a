/** The tools layer's shell, as root of a user namespace: what it installs of a release server's answers, and what it rejects. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeEach, expect, test } from "vitest";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { paths, units } from "../../../infra/host/paths.ts";
import { missingTools, toolsLayer } from "../../../infra/host/tools/tools.ts";
import { exampleHost, rebuilt, release, serving } from "../../fixtures.ts";
import { needs, Root } from "./namespace.ts";

needs("unshare", "curl");

type Entry = { name: string; text?: string; mode?: number; type?: "0" | "1" | "2" | "3" | "6"; link?: string };

/** A tar archive, whose names and links may be any. */
function packed(entries: readonly Entry[]): Buffer {
  const octal = (number: number, width: number) => `${number.toString(8).padStart(width - 1, "0")}\0`;
  const blocks = entries.map(({ name, text = "", mode = 0o755, type = "0", link = "" }) => {
    const numbers = octal(mode, 8) + octal(0, 8) + octal(0, 8) + octal(text.length, 12) + octal(0, 12);
    const [before, after] = [name.padEnd(100, "\0") + numbers, `${type}${link.padEnd(100, "\0")}ustar\x0000`];
    const sum = Buffer.from(`${before}        ${after}`).reduce((all, byte) => all + byte, 0);
    const header = `${before}${octal(sum, 7)} ${after}`.padEnd(512, "\0");
    return header + text.padEnd(Math.ceil(text.length / 512) * 512, "\0");
  });
  return gzipSync(`${blocks.join("")}${"\0".repeat(1024)}`);
}

const program = { name: "tool", text: "#!/bin/sh\necho good\n" };
const good = packed([program, { name: "lib/link", type: "2", link: "../tool" }]);
const sumOf = (archive: Buffer) => createHash("sha256").update(archive).digest("hex");

let answer: (response: ServerResponse) => unknown;
const requested: string[] = [];
const server = createServer((request, response) => {
  requested.push(request.url!);
  answer(response);
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tool.tar.gz`;
afterAll(() => void server.close());

const { script = "", ...layer } = toolsLayer(rebuilt);
const overHttp = script.replaceAll("=https ", "=http ");
let root: Root;
const tools = () => root.at(paths.tools);
beforeEach(() => {
  root = new Root();
  root.write(`${paths.state}/made`, "");
  requested.length = 0;
  answer = (response) => response.end(good);
});

const run = (calls: string, text = overHttp) =>
  promisify(execFile)("unshare", ["--user", "--map-root-user", "sh", "-ec", root.moved(`umask 022\n${text}\n${calls}`)])
    .then(({ stdout, stderr }) => ({ code: 0, stdout: stdout.trim(), stderr }))
    .catch(({ code, stdout, stderr }) => ({ code, stdout, stderr }));
const install = (archive: Buffer, id = "tool-1.0.0", strip = "0") =>
  `install_tool ${id} site tool ${strip} ${[url, sumOf(archive), url, sumOf(archive)].join(" ")}`;
const state = (archive: Buffer, id = "tool-1.0.0") => `tool_state ${id} ${sumOf(archive)} ${sumOf(archive)}`;

test("a release is installed once, a changed file and another digest install it anew, and a missing one is named", async () => {
  const [tool, lib] = [`${tools()}/tool-1.0.0/tool`, `${tools()}/tool-1.0.0/lib/link`];
  const both = `${state(good)}\n${install(good)}\n${install(good)}\n${state(good)}`;
  expect(await run(both)).toEqual({ code: 0, stdout: "missing\nas installed", stderr: "" });
  expect([requested.length, readFileSync(lib, "utf8"), statSync(tool).mode & 0o7777]).toEqual([1, program.text, 0o755]);
  expect(readdirSync(tools()).sort()).toEqual(["tool-1.0.0", "tool-1.0.0.record"]);
  // The same size and time of change of its contents.
  const { atime, mtime } = statSync(tool);
  writeFileSync(tool, program.text.replace("good", "evil"));
  utimesSync(tool, atime, mtime);
  const repaired = await run(`${state(good)}\n${install(good)}\n${state(good)}`);
  expect(repaired.stdout).toBe("another than was installed\nas installed");
  expect(readFileSync(tool, "utf8")).toBe(program.text);
  const other = packed([{ name: "top/tool", text: "other" }]);
  answer = (response) => response.end(other);
  const again = await run(`${state(other)}\n${install(other, undefined, "1")}\n${state(other)}`);
  expect(again.stdout).toBe("another than was installed\nas installed");
  expect(readFileSync(tool, "utf8")).toBe("other");
});

test("what npx pushgate tools --send left is installed without a download, if it has the digest", async () => {
  const sent = `${paths.tools}/.sent-${sumOf(good)}`;
  root.write(sent, "damaged");
  expect((await run(install(good))).stderr).toContain("has the SHA-256");
  writeFileSync(root.at(sent), good);
  expect(await run(`${install(good)}\n${state(good)}`)).toMatchObject({ stdout: "as installed" });
  expect([requested, existsSync(root.at(sent))]).toEqual([[], false]);
});

type Server = typeof answer;
type Row = [string, Buffer, string, readonly string[] | undefined, string, (Server | undefined)?, string?];
const holding = (...entries: Entry[]) => packed([program, ...entries]);
const evil = (type: Entry["type"], link?: string) => holding({ name: "evil", type: type!, link: link ?? "" });
const sending = (archive: Buffer) => (response: ServerResponse) => response.end(archive);
const large = Buffer.alloc(400_000, "x");
const endless: Server = (response) => [response.write(large), response.end()];
const trickling: Server = async (response) => {
  for (let at = 0; at < good.length; at += 100) {
    response.write(good.subarray(at, at + 100));
    await sleep(1_000);
  }
  response.end();
};
const limited = (name: string, limit: number) => overHttp.replace(new RegExp(`${name}=\\d+`), `${name}=${limit}`);
const [packs, unpacks] = [limited("most_packed", 20_000), limited("most_unpacked", 20_000)];
const hurries = limited("download_seconds", 1);
const zeros = holding({ name: "zeros", text: "\0".repeat(50_000) });
const [noPaths, noLook] = [
  ["tar -x ", "tar -xP "],
  ["foreign() (", "foreign() { :; }\n("],
] as const;
const [noDigest, noProgram] = ['[ "${found%% *}" = "$sum" ] ||', '[ -x "$new/$3" ] ||'].map((line) => [line, ": ||"]);
const [noLength, noSize] = ['head -c "$most_packed"', 'head -c "$most_unpacked"'].map((head) => [head, "cat"]);
const [made, foreign] = ["tool-1.0.0/tool", "holds ./evil, which is no file, no folder and no link in the archive"];

/** What the error has; the line that is removed; then, what is there below the tools, or what the error has. */
test.each<Row>([
  ["another digest", good, "has the SHA-256", noDigest, made, sending(holding({ name: "x" }))],
  ["a name with ..", holding({ name: "../evil" }), "cannot be unpacked", noPaths, "evil"],
  ["a hard link", evil("1", `../../${"../".repeat(4)}var/lib/pushgate/made`), "unpacked", noPaths, "tool-1.0.0/evil"],
  ...[".", "..", "/etc", "../tool-1.0.0/../..", "lib/../../x"].map(
    (to): Row => [`a link to ${to}`, evil("2", to), foreign!, noLook, "tool-1.0.0/evil"],
  ),
  ["a pipe", evil("6"), foreign, noLook, "tool-1.0.0/evil"],
  ["many bytes in a small archive", zeros, "cannot be unpacked", noSize, made, undefined, unpacks],
  ["an answer without an end", good, "downloaded: curl: (23)", noLength, "has the SHA-256", endless, packs],
  ["a long answer", good, "curl: (63)", ['--max-filesize "$most_packed"', ""], "curl: (23)", sending(large), packs],
  ["a slow answer", good, "curl: (28)", ['--max-time "$download_seconds"', ""], made, trickling, hurries],
  ["an address without TLS", good, "curl: (1)", ["--proto =https", "--proto =http"], made, undefined, script],
  ["an archive without the program", packed([{ name: "x" }]), "has no program tool", noProgram, "tool-1.0.0/x"],
])(
  "a host rejects %s, and without the protection it gets further",
  async (_, archive, says, [line = "", instead = ""] = [], further, own, text = overHttp) => {
    await run(install(good, "tool-0.9.0"));
    answer = own ?? sending(archive);
    expect(await run(install(archive), text)).toMatchObject({ code: 1, stderr: expect.stringContaining(says) });
    expect(readdirSync(tools()).sort()).toEqual(["tool-0.9.0", "tool-0.9.0.record"]);
    expect((await run(state(good, "tool-0.9.0"))).stdout).toBe("as installed");
    expect(text).toContain(line);
    const { stderr } = await run(install(archive), text.replace(line, instead));
    if (further.includes(" ")) expect(stderr).toContain(further);
    else expect(lstatSync(`${tools()}/${further}`, { throwIfNoEntry: false })).toBeDefined();
  },
);

test("a host takes neither a device nor, as such, an absolute path and a program with root's rights", async () => {
  const absolute = holding({ name: root.at("/evil") }, { name: "suid", mode: 0o6777 });
  answer = sending(absolute);
  expect(await run(`${install(absolute)}\n${state(absolute)}`)).toMatchObject({ stdout: "as installed" });
  const { mode } = statSync(`${tools()}/tool-1.0.0/suid`);
  expect([existsSync(root.at("/evil")), mode & 0o7777]).toEqual([false, 0o755]);
  const device = holding({ name: "evil", type: "3" });
  answer = sending(device);
  expect((await run(install(device))).code).toBe(1);
  answer = sending(absolute);
  await run(install(absolute, "tool-2.0.0"), overHttp.replace("tar -x ", "tar -xP "));
  expect(existsSync(root.at("/evil"))).toBe(true);
});

test("the layer has a call for each release, of the mirror where the site has one; preview names those that are missing", () => {
  const page = "https://github.com/sass/dart-sass/releases/download/1.89.2/dart-sass-1.89.2-linux-";
  const { amd64, arm64 } = release("1.89.2");
  expect(layer.activate.split("\n")[1]).toBe(
    `install_tool 'sass-1.89.2' 'docs' 'sass' '1' '${page}x64.tar.gz' '${amd64}' '${page}arm64.tar.gz' '${arm64}'`,
  );
  const mirror = "https://mirror.example.org/tools/";
  const settings = serving(rebuilt, { tools: { node: release("22.20.0") }, mirror });
  expect(toolsLayer(settings).activate).toContain(`'${mirror}node-v22.20.0-linux-x64.tar.gz'`);
  const facts = ["as installed", "missing"].map((output) => ({ output, status: 0 }));
  expect(missingTools(settings, { layers: { tools: { facts } } } as never)).toEqual(["hugo-0.152.2", "sass-1.89.2"]);
});

test("the builder's layer removes what no site names once the units have changed, and compares the sites that changed", async () => {
  for (const name of ["hugo-0.152.2/x", "hugo-0.152.2.record", "hugo-0.1.0/x", "hugo-0.1.0.record", ".download"])
    root.write(`${paths.tools}/${name}`, "");
  root.write("/bin/systemctl", '#!/bin/sh\necho "$@"\n', 0o755);
  const { script, facts } = builderLayer(rebuilt, exampleHost);
  const fact = facts.find(({ name }) => name.startsWith("what is in"))!.read;
  const changed = `changed='${paths.builderSettings}/docs.json' enabled='${units.site("docs")} ${units.site("site")}'`;
  const calls = `PATH=${root.at("/bin")}:$PATH\n${changed}\ncompare_changed\n${fact}\nremove_unnamed\n${fact}`;
  const { stdout } = await run(calls, script);
  expect(stdout.split("\n")).toEqual([
    `start --no-block ${units.reconcile("docs")}`,
    ...["hugo-0.1.0", "hugo-0.1.0.record", ".download", "none"],
  ]);
});
