/**
 * `npx pushgate init` as a person meets it: in a real pty, with every prompt. The folder of init.test.ts has a fake pulumi
 * and a fake ssh; here that pulumi has a passphrase, as every stack with a state in a folder or a bucket has.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { Hosts, hookOf } from "../hosts.ts";
import { endOfInput, enter, interrupt, type Reply, Terminal } from "./terminal.ts";

const hosts = new Hosts();
const pushgate = `'${process.execPath}' '${fileURLToPath(new URL("../../../../infra/cli/pushgate.cjs", import.meta.url))}'`;
let folder: string;
let terminal: Terminal;

beforeEach(async () => {
  folder = mkdtempSync(join(hosts.folder, "project-"));
  hosts.add("9.9.9.9");
  hosts.configure([], []);
  hosts.finds("9.9.9.9", ["9.9.9.9"]);
  locked();
  const { CLOUDFLARE_API_TOKEN: _, CLOUDFLARE_BASE_URL: __, PULUMI_CONFIG_PASSPHRASE: ___, ...env } = process.env;
  const path = [join(folder, ".bin"), hosts.at("bin"), env.PATH].join(delimiter);
  terminal = new Terminal({ cwd: folder, env: { ...env, PATH: path } });
  await terminal.run("stty columns 250");
});
afterEach(() => terminal.close());

/** Puts a pulumi before the fake one whose "config set" rejects a secret without the passphrase, in pulumi's own words. */
function locked(command = "config set"): void {
  hosts.program(
    `${basename(folder)}/.bin/pulumi`,
    `case "$1 $2" in
  "stack rm") rm "Pulumi.$3.yaml"; exit ;;
  "${command}")
    [ "\${PULUMI_CONFIG_PASSPHRASE-}" = "open sesame" ] || {
      echo "error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables" >&2
      exit 1
    }
    [ ! -e ${folder}/.slow ] || { touch ${folder}/.waits; sleep 20; } ;;
esac
exec '${hosts.folder}/bin/pulumi' "$@"`,
  );
}

const written = () => readdirSync(folder).filter((name) => !name.startsWith("."));
type Answer = readonly [name: string, offered: string, answer: string, wrong?: string, says?: RegExp];
/**
 * Every prompt in its order, the answer that it offers, and the one that is typed: an empty one takes the offer. `wrong` is
 * typed before it, and quoted.
 */
const answers: readonly Answer[] = [
  ["zone", "", "pushgate.dev", "Pushgate Dev", /That is "Pushgate Dev"\. Use a DNS name in lower case/],
  ["plan", "", "free"],
  ["ssh", "", "root@9.9.9.9"],
  ["name", "web1", ""],
  ["address", "9.9.9.9", "", "9.9.9", /That is "9\.9\.9"\. Use /],
  ["address6", "", ""],
  ["hostname", "hooks.pushgate.dev", ""],
  ["repository", "", "https://git.pushgate.dev/me/site.git"],
  ["gitHost", "", "forgejo"],
  ["sources", "", "9.9.9.10"],
  ["branch", "main", "", "-x", /That is "-x", and git accepts no "-" there \(character 1\)\. Use a branch name/],
  ["hook", "site", ""],
  ["webRoot", "/var/www/site", ""],
  ["content", "", ""],
  ["siteHostname", "", "www.pushgate.dev"],
];
const passphrase: Reply = [/\? Passphrase of the stack /, `open sesame${enter}`];
const reply = (name: string, answer: string): Reply => [new RegExp(`\\? ${name}: `), `${answer}${enter}`];
const replies: readonly Reply[] = answers.map(([name, , answer]) => reply(name, answer));

test("init prompts for each thing it needs, explains it, quotes a wrong answer to be corrected, and writes the stack", async () => {
  const clear = "\x15";
  const typed = answers.flatMap(([name, offered, answer, wrong, says]): Reply[] =>
    wrong && says ? [reply(name, wrong), [says, `${clear}${answer || offered}${enter}`]] : [reply(name, answer)],
  );
  const { code, text } = await terminal.run(`${pushgate} init`, [...typed, passphrase]);
  expect(code, text).toBe(0);
  for (const [name, offered] of answers)
    expect(text).toMatch(new RegExp(`\\? ${name}: [A-Z].{10,250}\\.${offered && ` \\(${offered}\\)`}`));
  const { config } = parse(readFileSync(join(folder, "Pulumi.live.yaml"), "utf8"));
  expect(config["pushgate:hosts"][0]).toMatchObject({ ssh: "root@9.9.9.9", address: "9.9.9.9" });
  expect(config["pushgate:hooks"][0]).toMatchObject({ gitHost: "forgejo", sources: ["9.9.9.10"], branch: "main" });
  expect(config["pushgate:hooks"][0].site).toMatchObject({ webRoot: "/var/www/site", hostname: "www.pushgate.dev" });
  expect(text).toContain("Pulumi.live.yaml is written, with a new secret for the hook site. Next:");
  expect(text, "the passphrase is not echoed").not.toContain("open sesame");
});

const ended = /pushgate: the prompt was ended, so nothing was changed\.\n[^\n]*$/;
test.each<[what: string, typed: readonly Reply[], says: RegExp]>([
  ["Ctrl-D at a prompt", [...replies.slice(0, 3), [replies[3]![0], endOfInput]], ended],
  ["Ctrl-C at a prompt", [...replies.slice(0, 3), [replies[3]![0], interrupt]], ended],
  ["Ctrl-C at the passphrase", [...replies, [passphrase[0], interrupt]], ended],
  [
    "a wrong passphrase",
    [...replies, [passphrase[0], `sesame${enter}`]],
    /pulumi config set failed: error: passphrase/,
  ],
])("%s ends init, and leaves nothing", async (_, typed, says) => {
  const { code, text } = await terminal.run(`${pushgate} init`, typed);
  expect([code, written(), hosts.read("calls.log")], text).toEqual([1, [], ""]);
  expect(text).toMatch(says);
});

test("Ctrl-C while pulumi stores the secret leaves no stack behind", async () => {
  writeFileSync(join(folder, ".slow"), "");
  const done = terminal.run(`${pushgate} init`, [...replies, passphrase]);
  while (!existsSync(join(folder, ".waits"))) await new Promise((resolve) => setTimeout(resolve, 50));
  terminal.type(interrupt);
  const { code, text } = await done;
  expect([code, written()], text).toEqual([1, []]);
});

test("a command that reads secrets prompts for the passphrase where there is a terminal", async () => {
  locked("config --json");
  hosts.configure(["web1"], [hookOf()], { site: { current: "c".repeat(44) } });
  const { code, text } = await terminal.run(`${pushgate} hook site`, [passphrase]);
  expect([code, text], text).toEqual([0, expect.stringContaining(`secret        ${"c".repeat(44)}`)]);
  const without = await terminal.run(`${pushgate} hook site </dev/null`);
  expect(without.text).toContain(
    "the stack has a passphrase. Set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE.",
  );
});

test("a change of several hosts prompts, and only a yes goes on", async () => {
  hosts.configure(["web1", "web2"], [hookOf({ site: { webRoot: "/var/www/site" } })]);
  const build = (typed: string) =>
    terminal.run(`${pushgate} build site`, [[/\? .* web1 and web2\. \(y\/N\)\s*$/, typed]]);
  for (const typed of [enter, `n${enter}`])
    expect((await build(typed)).text).toMatch(/pushgate: nothing was changed\.\n$/);
  expect((await build(interrupt)).text).toMatch(/pushgate: the prompt was ended, so nothing was changed\.\n/);
  const { code, text } = await build(`y${enter}`);
  expect([code, text], text).toEqual([1, expect.stringContaining("web1: its name does not resolve")]);
});
