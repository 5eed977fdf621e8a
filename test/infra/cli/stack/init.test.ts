/** `npx pushgate init` without a terminal, with a fake pulumi, a fake ssh that runs the real shell, and the fake API. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { apiToken, startApi } from "../../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../../fakes/cloudflare/zone.ts";
import { ends, Hosts } from "../hosts.ts";

const hosts = new Hosts();
let folder: string;

/** An address is its own name: no query of a name leaves this computer. */
const ssh = "root@9.9.9.9";

beforeEach(() => {
  folder = mkdtempSync(join(hosts.folder, "project-"));
  hosts.add("9.9.9.9");
  hosts.configure([], []);
  hosts.finds("9.9.9.9", ["9.9.9.9", "10.0.0.5", "2620:fe::fe"]);
});

const init = (...words: string[]) => hosts.runIn(folder, {}, "init", ...words);
const stackOf = () => readFileSync(join(folder, "Pulumi.live.yaml"), "utf8");
const configOf = () => parse(stackOf()).config;
const found = ["--zone", "pushgate.dev", "--ssh", ssh, "--repository", "https://github.com/example/site.git"];
const needed = [...found, "--plan", "free"];
const lastCall = () => hosts.read("calls.log").trim().split("\n").at(-1);

test("writes a stack whose configuration has no fault, from flags and what the host reports", async () => {
  const { code, stdout, stderr } = await init(...needed, "--content", "/srv/content/site");
  expect([code, stderr]).toEqual([0, ""]);
  expect(parse(stackOf())).toEqual({
    encryptionsalt: "v1:AAAA:v1:BBBB",
    config: {
      "pushgate:zone": "pushgate.dev",
      "pushgate:edge": { plan: "free" },
      "pushgate:hosts": [
        { name: "web1", ssh, address: "9.9.9.9", address6: "2620:fe::fe", hostname: "hooks.pushgate.dev" },
      ],
      "pushgate:hooks": [
        {
          ...{ name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" },
          site: { webRoot: "/var/www/site", content: "/srv/content/site" },
        },
      ],
    },
  });
  expect(lastCall()).toMatch(
    /^config set --secret --path pushgate:secrets\.site\.current --stack live <[A-Za-z0-9+/]{43}=>$/,
  );
  expect(stdout).toMatch(
    / {2}1\. npx pushgate tools site: https:.*site\.git cannot be read on this computer: fatal: Could not/,
  );
  expect(stdout).toContain("  2. npx pulumi config set --secret cloudflare:apiToken\n  3. npx pulumi preview");
  expect(stdout).toMatch(/each with a backup: the state, at file:\/\/\/backed-up, and the\npassphrase/);
});

test("writes what the repository says, from its own branch", async () => {
  hosts.git({ "hugo.toml": "", "netlify.toml": '[build]\ncommand = "hugo --gc"' }, "trunk");
  const { code, stdout } = await init(...needed, "--site-hostname", "www.pushgate.dev");
  expect([code, stdout]).toEqual([0, expect.stringContaining("  + hugo.arguments: --gc (netlify.toml has it)\n")]);
  expect(configOf()["pushgate:hooks"][0]).toMatchObject({
    branch: "trunk",
    site: { hugo: { baseUrl: "https://www.pushgate.dev/", arguments: ["--gc"] } },
  });
  hosts.git();
});

test("for a repository over SSH init prints what remains to be done, and preview does", async () => {
  const { code, stdout } = await init(...needed.with(5, "git@github.com:example/site.git"));
  expect(code).toBe(0);
  expect(stdout).toMatch(/1\. pushgate:hooks\[0\]\.site\.knownHosts is missing, .*ssh-keyscan github\.com/);
  expect(stdout).toMatch(/2\. pushgate:secrets\.site\.deployKey is missing, .*ssh-keygen/);
});

const holdsMore = /hooks\[0\]\.site\.webRoot is "\/var\/www", which holds more/;
const own = ["--git-host", "gitea", "--repository", "https://git.pushgate.dev/x.git"];
const missing = /^pushgate: --plan is missing: .*\n--ssh is missing: Where `ssh` finds the host\. .*\n$/;
test.each([
  ["a wrong answer", [...needed, "--branch", "-x"], /--branch is "-x", and git accepts no "-" there/],
  ["a fault between answers", [...needed, "--web-root", "/var/www"], holdsMore],
  ["a git host without its sources", [...needed, ...own], /--sources is missing/],
  ["missing flags, all at once", ["--zone", "pushgate.dev"], missing],
])("rejects %s, and writes nothing", async (_, words, line) => {
  expect(await init(...words)).toMatchObject(ends(1, "", line));
  expect(readdirSync(folder)).toEqual([]);
});

test("init overwrites no stack file, which is the project's, also in a folder of it and for org/project/name", async () => {
  hosts.write(`${basename(folder)}/Pulumi.yaml`, "");
  mkdirSync(join(folder, "docs"));
  const below = (...words: string[]) => hosts.runIn(join(folder, "docs"), {}, "init", ...needed, ...words);
  expect(await below("--stack", "me/pushgate/live")).toMatchObject(ends(0, "\n../Pulumi.live.yaml is written"));
  const before = stackOf();
  expect(parse(before)).toMatchObject({
    encryptionsalt: expect.any(String),
    config: { "pushgate:zone": "pushgate.dev" },
  });
  const line = "Pulumi.live.yaml exists, and init overwrites nothing. Edit it, or choose another --stack.\n";
  for (const run of [init, below]) expect(await run(...needed)).toMatchObject(ends(1, "", line));
  expect(stackOf()).toBe(before);
});

test("tries the host at once: a login that is not root needs sudo without a password", async () => {
  hosts.finds("9.9.9.9", ["9.9.9.9"], 1000);
  const line = "root@9.9.9.9 is not root, and sudo needs a password. Allow";
  expect(await init(...needed)).toMatchObject(ends(1, "", line));
  hosts.program("9.9.9.9/bin/sudo", "exit 0");
  expect((await init(...needed)).code).toBe(0);
  expect(configOf()["pushgate:hosts"][0].sudo).toBe(true);
});

test("a host behind NAT has no public address to offer", async () => {
  hosts.finds("9.9.9.9", ["10.0.0.5"]);
  expect((await init(...needed)).stderr).toContain("--address is missing: Public IPv4 address");
});

test("reads the plan from the API, where the environment has a token, and stores the token", async () => {
  const api = await startApi({ zone: emptyZone("pushgate.dev", "business") });
  onTestFinished(() => api.close());
  const tokens = { CLOUDFLARE_API_TOKEN: apiToken, CLOUDFLARE_BASE_URL: api.url };
  const { code, stderr } = await hosts.runIn(folder, tokens, "init", ...found);
  expect([code, stderr]).toEqual([0, ""]);
  expect(configOf()["pushgate:edge"]).toEqual({ plan: "business" });
  expect(lastCall()).toBe(`config set --secret --path cloudflare:apiToken --stack live <${apiToken}>`);
  const other = await hosts.runIn(folder, tokens, "init", "--stack", "other", ...found.with(1, "another.dev"));
  expect(other.stderr).toMatch(/The token cannot read a zone another\.dev\. Add that zone to its resources\./);
});
