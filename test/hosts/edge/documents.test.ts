/**
 * Types what README.md and docs/operating.md say, line by line, into a terminal on an operator's computer without
 * pushgate, for a bare Debian host: from the clone to a page that a push updates, and through every section to the removal.
 *
 * - The lines come from the documents. Replaced are only addresses and what a line has in <…>; the API of the fake
 *   Cloudflare is in CLOUDFLARE_BASE_URL.
 * - A line without a step here is only typed. A step whose line is gone fails.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { type Api, apiToken, permissions, startApi } from "../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../fakes/cloudflare/zone.ts";
import { pushPayload } from "../../fakes/deliveries.ts";
import { enter, interrupt, type Reply } from "../../infra/cli/stack/terminal.ts";
import { documentText, type Typed, typedIn } from "../documents.ts";
import { type GitServer, gitServerName, startGitServer } from "../lab/git-server.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { type Operator, startOperator, upstream } from "../operator.ts";
import { front, page, prepareContent, siteFiles } from "../rebuild/site.ts";
import { published, statusOf } from "../rebuild/status.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { worldAround } from "../world.ts";

const hosts = new Map<string, Host>();
const newToken = apiToken.replace("abcdef", "fedcba");
let git: GitServer;
let api: Api;
let world: Omit<Awaited<ReturnType<typeof worldAround>>, "stack">;
let source: Awaited<ReturnType<typeof upstream>>;
let operator: Operator;

/** Boots a host with content and the git host's name. */
async function boot(name: string, variant: "bare" | "packages"): Promise<void> {
  const host = await bootHost({ name, release, variant });
  hosts.set(name, host);
  await git.introduce(host);
  await prepareContent(host);
}
const web1 = () => hosts.get("web1")!;

beforeAll(async () => {
  git = await startGitServer();
  await boot("web1", "bare");
  git.repository("example/site").push(siteFiles());
  api = await startApi({
    zone: emptyZone("example.org", "pro"),
    tokens,
  });
  source = await upstream();
  const env = { CLOUDFLARE_BASE_URL: api.url, NODE_EXTRA_CA_CERTS: git.caFile };
  operator = await startOperator(env, { [gitServerName]: git.addresses[0]! });
  world = await worldAround([], api, { close: () => operator.close() });
  git.webhooks.deliver = (sent) => world.send({ ...sent, source: gitHostSource });
});
afterAll(async () => {
  await world?.close();
  await git?.close();
  for (const host of hosts.values()) await host.kill();
  if (source) rmSync(source.folder, { recursive: true });
});

const clone = () => join(operator.folder, "pushgate");
const stackFile = () => join(clone(), "Pulumi.live.yaml");
let passphrase = "correct horse";

/** What the documents write instead of the lab's own addresses and names. */
const replaced = (): Record<string, string> => ({
  "<this repository>": source.folder,
  "<id>": lastDelivery,
  // The git host is a server of its own.
  "<variable>": "GH_ENTERPRISE_TOKEN",
  "<token>": git.webhooks.token,
  "<commit>": statusOf(web1())?.deployed?.commit ?? "",
  "<release or commit>": statusOf(web1())?.releases.at(-1)?.id ?? "",
  "203.0.113.10": hosts.get("web1")?.address ?? "",
  "203.0.113.20": hosts.get("web2")?.address ?? "",
  "203.0.113.30": hosts.get("web3")?.address ?? "",
  "2001:db8::30": hosts.get("web3")?.address6 ?? "",
  "198.51.100.7": actors.gitlab.v4[0],
});
const here = (text: string): string =>
  Object.entries(replaced()).reduce((moving, [from, to]) => moving.replaceAll(from, to), text);

/** Prompts that any command may have. */
const usual = (): Reply[] => [
  [/unlock config\/secrets[^*]*:\s*$/, `${passphrase}${enter}`],
  [/\? Passphrase of the stack /, `${passphrase}${enter}`],
  [/Do you want to perform this (update|destroy)/, `yes${enter}`],
  [/\(y\/N\)\s*$/, `y${enter}`],
];

/** Types a line, and returns what the terminal shows. */
async function type(line: string, ...replies: Reply[]): Promise<string> {
  const { code, text, seconds } = await operator.terminal.run(here(line), [...replies, ...usual()], 240_000);
  console.log(`${seconds.toFixed(1).padStart(5)} s  ${line.split("\n")[0]}`);
  expect(code, text).toBe(0);
  if (line.startsWith("npx pulumi")) expect(text).not.toContain("error:");
  return text;
}

type Step = (line: string) => Promise<unknown>;
const plain: Step = (line) => type(line);
/** The comment of such a line names a case that is not the one here. */
const otherCase: Step = async () => {};
/** Another section has typed this line, and the step there has checked what it does. */
const typedBefore: Step = async () => {};
/** The `up` of the next section makes this section's change, too: each takes 10 s of a core and more. */
const withTheNext: Step = async () => {};
const shows =
  (pattern: RegExp, ...replies: Reply[]): Step =>
  async (line) =>
    expect(await type(line, ...replies)).toMatch(pattern);
const entersToken =
  (token: string): Step =>
  (line) =>
    type(line, [/value:\s*$/, `${token}${enter}`]);
/** The edit that a block of YAML describes in its first line. */
const edit: Step = async (block) => {
  const [, key] = /^# Pulumi\.live\.yaml, at the end of (\S+?):?(?: |\n)/.exec(block)!;
  const lines = readFileSync(stackFile(), "utf8").split("\n");
  const begin = lines.findIndex((line) => line.trim() === `${key}:`);
  const length = lines.slice(begin + 1).findIndex((line) => !/^ {4}/.test(line));
  lines.splice(begin + 1 + length, 0, here(block).split("\n").slice(1, -1).join("\n"));
  writeFileSync(stackFile(), lines.join("\n"));
};

/** What is done, or checked, before the line. */
const first =
  (before: () => unknown): Step =>
  async (line) => {
    await before();
    await type(line);
  };

/** What the git hosts have: the secret by URL. */
const webhooks = new Map<string, string>();
let lastDelivery = "";
/** Enters at the git host what `npx pushgate hook` shows. */
const enterWebhooks: Step = async (line) => {
  const text = await type(line);
  const entries = [...text.matchAll(/URL +(\S+)[\s\S]*?secret +(\S+)/g)];
  expect(entries.length, text).toBeGreaterThan(0);
  for (const [, url, secret] of entries) webhooks.set(url!, secret!);
};
/** The first host's webhook of a hook. */
const webhookOf = (hook: string, of = webhooks) => [...of].find(([url]) => url.endsWith(`/${hook}`))!;
const send = ([url, secret]: readonly [string, string], commit: string, source = gitHostSource) =>
  world.deliver({
    ...{ host: new URL(url).hostname, path: new URL(url).pathname, secret, source },
    payload: { ...pushPayload(), after: commit },
    headers: { "x-github-delivery": lastDelivery },
  });
/** Pushes a page: the git host delivers to each webhook of the site, and each host shows the page. */
async function push(mark: string, to: readonly string[] = ["web1"]): Promise<void> {
  const commit = git.repository("example/site").push({ "layouts/index.html": front(mark) });
  lastDelivery = crypto.randomUUID();
  for (const webhook of webhooks)
    if (webhook[0].endsWith("/site")) expect(await send(webhook, commit)).toMatchObject({ status: 202 });
  for (const name of to) await published(hosts.get(name)!, commit, { timeout: 90_000 });
  await serves(mark);
}
async function serves(mark: string, hostname = "www.example.org"): Promise<void> {
  const { status, body } = await world.visit(hostname);
  expect([status, /layout-\w+/.exec(body)?.[0]], body).toEqual([200, `layout-${mark}`]);
}

/** init's prompts with what this operator types. */
const answers: Readonly<Record<string, string>> = {
  zone: "example.org",
  plan: "pro",
  ssh: "root@web1.example.org",
  repository: "https://git.example.net/example/site.git",
  gitHost: "github-enterprise",
  sources: actors.github.v4[0],
  content: "/srv/content/site",
  siteHostname: "www.example.org",
};
const others = ["name", "address", "address6", "hostname", "branch", "hook", "webRoot"];
const initReplies = (): Reply[] => [
  ...[...Object.entries(answers), ...others.map((name) => [name, ""])].map(
    ([name, answer]): Reply => [new RegExp(`\\? ${name}: `), `${answer}${enter}`],
  ),
  ...newPassphrase(passphrase),
];
const newPassphrase = (text: string): Reply[] => [
  [/Enter your (new )?passphrase to protect[^*]*:\s*$/, `${text}${enter}`],
  [/Re-enter your (new )?passphrase[^*]*:\s*$/, `${text}${enter}`],
];

/** When `npx pulumi up` of the quick start was typed. */
let upAt = 0;
let secondsToPage = 0;

/** The secrets before a rotation. */
let previous = new Map<string, string>();
let gitHostSource: string = actors.github.v4[0];
const tokens: Record<string, typeof permissions> = { [apiToken]: permissions, [newToken]: permissions };

/** A release of pushgate that changes what nginx, the receiver and the builder run. */
async function newVersion(): Promise<void> {
  const changed = {
    "infra/host/proxy/nginx.conf": "# the next version\n",
    "service/receiver/main.ts": 'console.log("the next version");\n',
    "service/builder/main.ts": 'console.log("the next version");\n',
  };
  for (const [file, line] of Object.entries(changed)) writeFileSync(join(source.folder, file), line, { flag: "a" });
  await source.release("the next version");
}

/** The operator's computer has the clone, and pulumi knows no state and no login. */
function loseState(): void {
  for (const lost of ["stacks", "credentials.json"]) rmSync(join(operator.home, ".pulumi", lost), { recursive: true });
}

/** Nothing of pushgate is left in /etc. */
async function left(host: Host): Promise<void> {
  expect(Object.keys(await host.snapshot("/etc")).filter((path) => path.includes("pushgate"))).toEqual([]);
}

/** What is done for a line of its section, in the documents' order; `after`: and what is checked then. */
const on = (line: string, step: Step, after?: () => unknown) => ({ line, step, after });
const steps: Readonly<Record<string, readonly ReturnType<typeof on>[]>> = {
  Deploy: [
    on("npm ci", async (line) => {
      const text = await type(line);
      expect(text).toMatch(/added \d+ packages/);
      expect(text).not.toMatch(/warn/i);
    }),
    on("npx pushgate init", (line) => type(line, ...initReplies())),
    on("npx pulumi config set --secret cloudflare:apiToken", entersToken(apiToken)),
    on("npx pulumi up", async (line) => {
      upAt = performance.now();
      await type(line);
      // The others begin at once: a preview before each would be half of this file's time.
      await operator.terminal.run("export PULUMI_OPTION_SKIP_PREVIEW=true");
      // npx itself takes 0.7 s of a core.
      await operator.terminal.run(
        'npx() { if [ "$1" = pushgate ]; then shift; set -- infra/cli/pushgate.cjs "$@"; fi; PATH=$PWD/node_modules/.bin:$PATH "$@"; }',
      );
    }),
    on("npx pushgate build site", async (line) => {
      expect(await type(line)).toMatch(/web1: published/);
      await serves("first");
      secondsToPage = (performance.now() - upAt) / 1000;
    }),
    on("npx pushgate hook", enterWebhooks),
    on("npx pushgate status", async (line) => {
      await push("second");
      expect(await type(line)).toMatch(/, as published[\s\S]*No faults\./);
    }),
  ],
  "A delivery was rejected": [
    on("npx pushgate trace --delivery <id>", shows(/certain: the receiver accepted the delivery\./)),
  ],
  See: [
    on("npx pushgate status", typedBefore),
    on("npx pushgate deploys --follow", async (line) => {
      const following = "pgrep -f '^journalctl .*pushgate-build@' || true";
      const pushed = until(
        "the host's journal is followed",
        async () => (await web1().read(following)) || undefined,
      ).then(() => push("followed"));
      const { text } = await operator.terminal.run(line, [[/Total in [\s\S]* {2}published /, interrupt]]);
      expect(text).toMatch(/site on web1: [a-z]+ \d/);
      await pushed;
    }),
    on("npx pushgate deploys show <id>", shows(/delivery \S+\n[\s\S]*pages as [\s\S]*Total in \d+/)),
    on("npx pushgate where <commit>", async (line) => {
      // Cloudflare's name of the site may lead nowhere here, which is exit status 1.
      const { text } = await operator.terminal.run(here(line), usual());
      expect(text).toMatch(/^site on web1: published: /m);
    }),
    on("npx pushgate logs --follow", (line) => operator.terminal.run(line, [[/receiver/, interrupt]])),
    // Each log that knows the delivery, in any order.
    on(
      "npx pushgate logs --delivery <id>",
      shows(/^(?=[\s\S]* nginx .*202)(?=[\s\S]* receiver .*202)[\s\S]* builder .*published/),
    ),
  ],
  "Trace a delivery": [
    on("npx pushgate trace --delivery <id>", typedBefore),
    on(
      "npx pushgate trace --ping --hook site",
      shows(/certain: the receiver ignored the delivery[\s\S]*It proves nothing about DNS/),
    ),
    on("npx pushgate hook site --set", shows(/creates the webhook[\s\S]*the webhook is set[\s\S]*8 receiver +passed/)),
    on("npx pushgate trace --since 3d", async (line) => {
      // A connection that came before the end is reset in its handshake.
      await web1().inside(
        `systemctl stop ${units.nginxSocket} ${units.nginx}; while ss -Htn sport = :8443 | grep -q .; do sleep 0.1; done`,
      );
      for (let i = 0; i < 2; i++) await git.webhooks.push();
      await web1().inside(`systemctl start ${units.nginx}`);
      const { code, text } = await operator.terminal.run(here(line), usual(), 240_000);
      expect([code, text]).toEqual([1, expect.stringMatching(/rejected by 5 firewall: 2 deliveries/)]);
    }),
    on(
      "npx pushgate trace --since 3d --redeliver",
      shows(
        /2 deliveries of site on web1 again[\s\S]*delivered: 2 deliveries\s+certain: the receiver accepted the delivery\./,
      ),
      async () => {
        const places = "/etc /var/log /var/lib/pushgate* /run/pushgate*";
        const token = await web1().read(`grep -rlF -e '${git.webhooks.token}' ${places} 2>/dev/null || true`);
        expect(token).toBe("");
      },
    ),
  ],
  "Build, and go back": [
    on("npx pushgate build site", typedBefore),
    on("npx pushgate rollback site", async (line) => {
      await push("third");
      expect(await type(line)).toMatch(/web1: rolled back/);
      await serves("followed");
    }),
    on("npx pushgate rollback site <release or commit>", plain, () => serves("first")),
  ],
  "Move the posts into the repository": [
    on("npx pulumi up", async (line) => {
      const posts = { "content/_index.md": page("Home"), "content/posts/moved.md": page("Moved") };
      git.repository("example/site").push(posts);
      const text = readFileSync(stackFile(), "utf8");
      expect(text).toMatch(/^ +content: .*\n/m);
      writeFileSync(stackFile(), text.replace(/^ +content: .*\n/m, ""));
      await type(line);
    }),
    on("npx pushgate build site", async (line) => {
      expect(await type(line)).toMatch(/web1: published/);
      expect((await world.visit("www.example.org", "/posts/moved/")).status).toBe(200);
    }),
  ],
  "A second hook": [
    on("# Pulumi.live.yaml, at the end of pushgate:hooks", async (block) => {
      git.repository("example/docs").push({ ...siteFiles("docs"), "content/_index.md": page("Docs") });
      await edit(block);
    }),
    on("npx pulumi up", withTheNext),
    on("npx pushgate hook docs", enterWebhooks),
  ],
  "A second host": [
    on("# Pulumi.live.yaml, at the end of pushgate:hosts", async (block) => {
      await boot("web2", "packages");
      await edit(block);
    }),
    on("npx pulumi up", async (line) => {
      await type(line);
      lastDelivery = crypto.randomUUID();
      const delivered = await send(webhookOf("docs"), "a".repeat(40), actors.gitlab.v4[0]);
      expect(delivered).toMatchObject({ status: 202 });
      await expect.poll(() => serves("docs", "docs.example.org"), { timeout: 60_000 }).toBeUndefined();
    }),
    on("npx pushgate build site --host web2", shows(/web2: published/)),
    on("npx pushgate hook", async (line) => {
      await enterWebhooks(line);
      expect(webhooks.size).toBe(4);
      await push("hosts", ["web1", "web2"]);
    }),
  ],
  "Rotate a secret": [
    on("npx pushgate secret rotate site", plain, () => {
      previous = new Map(webhooks);
    }),
    on("npx pulumi up", plain, () => push("rotated", ["web1", "web2"])),
    on("npx pushgate hook site", enterWebhooks, () => push("entered", ["web1", "web2"])),
    on("npx pushgate logs receiver", shows(/accepted, signed with the previous secret/)),
    on("npx pulumi up", withTheNext),
  ],
  "Change Cloudflare's token": [
    on("npx pulumi config set --secret cloudflare:apiToken", entersToken(newToken)),
    on("npx pulumi up", withTheNext),
  ],
  "Renew the client certificate": [
    on("npx pulumi up", async (line) => {
      await type(line);
      // What revokes the former token.
      delete tokens[apiToken];
      expect(await send(webhookOf("site", previous), "0".repeat(40))).toMatchObject({ status: 401 });
      await push("renewed", ["web1", "web2"]);
    }),
  ],
  "Change the git host": [
    on("npx pulumi config rm --path 'pushgate:hooks[0].sources'", otherCase),
    on("npx pulumi config set --secret --path pushgate:secrets.site.status", otherCase),
    on("npx pushgate secret rotate site", otherCase),
    on("npx pushgate hook site", async (line) => {
      await enterWebhooks(line);
      gitHostSource = actors.gitlab.v4[0];
      await push("moved", ["web1", "web2"]);
    }),
  ],
  "A git host sends from new addresses": [
    // No owner of ranges is reached from here.
    on("npx pushgate networks", async (line) => {
      const { code, text } = await operator.terminal.run(line);
      expect([code, text]).toEqual([
        1,
        expect.stringMatching(/Bitbucket's ranges were not compared: .* cannot be read/),
      ]);
      expect((await operator.terminal.run("git diff --quiet infra test")).code).toBe(0);
    }),
    on("npx pulumi up", withTheNext),
  ],
  "Upgrade pushgate": [
    on("git pull --rebase && npm ci", async (line) => {
      await newVersion();
      // The lock file is the former one's: npm would install half a minute what is there.
      await type(line.replace(" && npm ci", ""));
    }),
    on("npx pulumi preview --diff", shows(/the next version/)),
    on("npx pulumi up", async (line) => {
      const head = git.repository("example/site").head()!;
      const { seen } = await repeatWhile(
        () => type(line),
        () => send(webhookOf("site"), head),
        200,
      );
      expect(seen.filter(({ status }) => status !== 202)).toEqual([]);
      expect(await web1().readFile(paths.nginx)).toContain("the next version");
      await push("upgraded", ["web1", "web2"]);
    }),
  ],
  "An `up` that was interrupted": [
    on("npx pushgate adopt", shows(/Nothing to adopt\./)),
    on("npx pulumi up", withTheNext),
  ],
  "A host that is lost": [
    on("npx pulumi config set --path 'pushgate:hosts[1].state' lost", async (line) => {
      await hosts.get("web2")!.kill();
      hosts.delete("web2");
      await type(line);
    }),
    on("npx pulumi up", async (line) => {
      await type(line);
      for (const url of webhooks.keys()) if (url.includes("hooks2")) webhooks.delete(url);
      await push("alone");
    }),
    on("npx pulumi up", withTheNext),
  ],
  "A new host in place of a former one": [
    on("# Pulumi.live.yaml, at the end of pushgate:hosts: only if the former host still runs", async (block) => {
      await boot("web3", "packages");
      await edit(block);
    }),
    on("npx pulumi up", plain),
    on("npx pushgate build site", shows(/web1: published/)),
    on(
      "npx pulumi config rm --path 'pushgate:hosts[1]'",
      first(() => left(web1())),
    ),
    on("npx pulumi up", plain, () => push("new", ["web3"])),
  ],
  "Hand over": [
    on("npx pulumi stack change-secrets-provider passphrase", async (line) => {
      await type(line, ...newPassphrase("another passphrase"));
      passphrase = "another passphrase";
    }),
    // The next operator's computer has the clone and no state.
    on("npm ci", typedBefore),
    on("npx pulumi login --local --non-interactive", first(loseState)),
    on("npx pulumi preview", shows(/unchanged/)),
  ],
  "The state is lost": [
    on("npx pulumi login --local --non-interactive", first(loseState)),
    on("npx pushgate adopt", shows(/\d+ adopted\./)),
    on("npx pulumi up", withTheNext),
  ],
  "The passphrase is lost": [
    on("npx pulumi config rm pushgate:secrets", async (line) => {
      passphrase = "forgotten";
      await type(line);
    }),
    on("npx pulumi stack init live", (line) => type(line, ...newPassphrase(passphrase))),
    on("npx pulumi config set --secret cloudflare:apiToken", entersToken(newToken)),
    // "For each hook".
    on("npx pushgate secret rotate site", plain, () => type("npx pushgate secret rotate docs")),
    on("npx pushgate adopt", shows(/\d+ adopted\./)),
    on("npx pushgate hook", enterWebhooks, () => push("remade", ["web3"])),
  ],
  Remove: [
    on("npx pulumi up", async (line) => {
      await type(line);
      await left(hosts.get("web3")!);
      expect(await hosts.get("web3")!.read("grep -o 'layout-[a-z]*' /var/www/site/index.html")).toBe("layout-remade");
      expect(api.zone.dns_records).toEqual([]);
    }),
  ],
};

const files = ["README.md", "docs/operating.md"] as const;
const sections = new Map<string, Typed[]>();
for (const typed of files.flatMap(typedIn))
  sections.set(typed.section, [...(sections.get(typed.section) ?? []), typed]);

test("the documents have each section for which there are steps here", () => {
  expect([...sections.keys()]).toEqual(expect.arrayContaining(Object.keys(steps)));
});

let broken: string | undefined;
test.each([...sections])(
  "%s",
  async (section, typed) => {
    expect(broken, "a section before this one failed").toBeUndefined();
    broken = section;
    const own = [...(steps[section] ?? [])];
    // What is a file of its own, systemd-analyze (layers.test.ts) and actionlint (.ci/workflows.ts) check.
    for (const { kind, text } of typed.filter(({ kind }) => kind !== "file")) {
      const line = kind === "yaml" ? yamlHead(text) : text;
      const { step, after } = own[0]?.line === line.trim() ? own.shift()! : on(text, plain);
      await step(text);
      await after?.();
    }
    expect(own.map(({ line }) => line)).toEqual([]);
    broken = undefined;
  },
  600_000,
);
const yamlHead = (text: string): string => text.slice(0, text.indexOf("\n"));

test("README states how many commands the quick start has, and how long the first page takes", () => {
  const readme = documentText("README.md");
  const [, count] = /\| (\d+) commands \(\[below\]/.exec(readme) ?? [];
  const [, minutes] = /a bare host takes under (\d+) minutes/.exec(readme) ?? [];
  expect(Number(count)).toBe(sections.get("Deploy")?.length);
  console.log(`from pulumi up to the page: ${secondsToPage.toFixed(0)} s`);
  // README's time is on two free cores. Here two other files run, and in .ci/run the rehearsal: up to four times as slow.
  expect(secondsToPage).toBeLessThan(4 * Number(minutes) * 60);
});
