/** Mutants that no test can notice, or none should: each with the reason. */

export type Survivor = {
  readonly file: string;
  /** The source's line in which the mutant begins, without its indentation. */
  readonly line: string;
  /** What Stryker writes in place of a part of it; absent where all mutants of the line have this reason. */
  readonly becomes?: string;
  readonly reason: string;
};

const gone = "An entry goes between the look at the folder and the look at it: no test chooses the moment.";
const ordered = "test/service/builder/order.test.ts lists the calls of the bundle.";
const asRoot =
  "Root, as which these tests may run, may write into any folder; the host suite has the builder's own account.";
const sorted = "libuv sorts the names of a folder, which Node does not promise.";

const grows = "if (bytes > body.length) body = Buffer.concat([body], Math.min(limit, Math.max(declared, 2 * bytes)));";

export const survivors: readonly Survivor[] = [
  ...[
    ["infra/host/proxy/origin-server.ts", 'items.map((item) => `    ${line(item)}`).join("\\n");'],
    [
      "infra/host/proxy/proxy.ts",
      'sourceGeos: sets.map((set) => geo("$remote_addr", sourceGeo(set), set.cidrs)).join("\\n\\n"),',
    ],
    [
      "infra/host/proxy/proxy.ts",
      'hookLocations: hooks.map(({ name, set }) => hookLocation(name, set.port, limits)).join("\\n\\n"),',
    ],
    ["infra/host/proxy/proxy.ts", 'return [server, ...websites(settings, host)].join("\\n");'],
  ].map(([file, line]) => ({
    file: file!,
    line: line!,
    becomes: '""',
    reason: "nginx reads directives and blocks without line ends between them, too.",
  })),
  {
    file: "infra/host/proxy/origin-server.ts",
    line: 'export const whereExists = (path: string): string => path.replace(/\\.conf$/, "*.conf");',
    becomes: "/\\.conf/",
    reason: "Each of the paths has one such text, at its end.",
  },
  {
    file: "infra/host/receiver/receiver.ts",
    line: 'const [address = "", bits] = cidr.split("/");',
    becomes: '"Stryker was here!"',
    reason: "A split text has a first part: a default of the type's.",
  },
  {
    file: "infra/host/secrets/secrets.ts",
    line: 'const saltText = /^salt ([0-9a-f]{64})$/.exec(lines[0] ?? "")?.[1];',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a salt.",
  },
  {
    file: "infra/host/secrets/secrets.ts",
    line: ".sort(([a], [b]) => (a < b ? -1 : 1))",
    becomes: "a <= b",
    reason: "No two names are equal.",
  },
  {
    file: "infra/host/builder/reporter.ts",
    line: 'sandbox: sandbox("node", "# Node calls pkey_alloc: it goes on after EPERM, not after a signal."),',
    becomes: '""',
    reason: "A comment in a unit: only the golden files show it.",
  },
  {
    file: "infra/host/builder/reporter.ts",
    line: 'const kinds = [...(setsStatus ? (["status"] as const) : []), ...(site.notify ? (["notify"] as const) : [])];',
    becomes: '["Stryker was here"]',
    reason: "The type of a credential's kind has no such word.",
  },
  {
    file: "infra/host/builder/reporter.ts",
    line: "...(notify !== undefined && { notify }),",
    becomes: "true",
    reason: "JSON leaves out what is undefined.",
  },
  {
    file: "infra/apply/diff.ts",
    line: 'const patch = structuredPatch("", "", `${from}\\n`, `${to}\\n`, "", "", options);',
    becomes: '"Stryker was here!"',
    reason: "These are names of files, which the hunks do not have.",
  },
  {
    file: "infra/apply/manifest.ts",
    line: "function check(layer: Probed, more: readonly (string | undefined)[] = []): void {",
    becomes: '["Stryker was here"]',
    reason: "A text without NUL, like none.",
  },
  {
    file: "infra/apply/reconcile.ts",
    line: "const tombstone = seen.stamp !== undefined && tombstoneShape.test(seen.stamp);",
    becomes: "true",
    reason: "The word undefined has no tombstone's shape: a condition of the type's.",
  },
  {
    file: "infra/apply/reconcile.ts",
    line: 'const old = tombstone || stampShape.test(seen.stamp ?? "") ? seen.stamp : random();',
    becomes: '"Stryker was here!"',
    reason: "Neither text has a stamp's shape.",
  },
  {
    file: "infra/config/cidr.ts",
    line: 'const [, address = "", bits] = /^([^/%]+)(?:\\/(\\d+))?$/.exec(cidr) ?? [];',
    becomes: '"Stryker was here!"',
    reason: "Neither text is an address.",
  },
  {
    file: "infra/config/derived.ts",
    line: "if (!network) throw new Error(`infra/networks.ts has no ${name}Hooks: add the ranges that the git host publishes.`);",
    reason: "It stops a developer who adds a git host without its ranges; each has them.",
  },
  ...[
    "export const settled = ({ hooks, ...config }: Config, withStatus: readonly string[] = []): Settings => ({",
    'export const settledHooks = (hooks: Config["hooks"], withStatus: readonly string[] = []): Settings["hooks"] =>',
  ].map((line) => ({
    file: "infra/config/derived.ts",
    line,
    becomes: '["Stryker was here"]',
    reason: "No hook has that name.",
  })),
  {
    file: "infra/config/faults.ts",
    line: "const child = parent.item ?? parent.entries?.[String(step)];",
    becomes: "parent.entries[String(step)]",
    reason: "valibot names no step below a value without entries: a condition of the type's.",
  },
  {
    file: "infra/config/faults.ts",
    line: 'const { success, output, issues = [] } = v.safeParse(schema, value, { abortPipeEarly: true, message: () => "" });',
    becomes: "() => undefined",
    reason: "An empty message is read like none.",
  },
  {
    file: "infra/config/schema.ts",
    line: 'const [, name = ""] = /^https:\\/\\/([a-z0-9.-]+)(?::\\d{1,5})?\\/[A-Za-z0-9._~/?&=+,@-]*$/.exec(url) ?? [];',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a DNS name.",
  },
  ...[
    ["infra/config/schema.ts", 'relativePath("layouts/", "", "*"),'],
    ["infra/config/values.ts", 'export const text = (pattern: RegExp, form: string, description = "") =>'],
    [
      "infra/config/values.ts",
      'export const checked = (isFit: (value: string) => boolean, form: string, description = "") =>',
    ],
    ["infra/config/values.ts", 'export const relativePath = (example: string, description = "", more = "") =>'],
  ].map(([file, line]) => ({
    file: file!,
    line: line!,
    becomes: '"Stryker was here!"',
    reason: "The items of a list have no description of their own in docs/configuration.md.",
  })),
  {
    file: "infra/config/secret-checks.ts",
    line: 'if (secrets === null || typeof secrets !== "object" || Array.isArray(secrets))',
    becomes: "false",
    reason: "settings.ts parses lists and objects only, so that null is a text: a condition of the type's.",
  },
  {
    file: "infra/config/secret-checks.ts",
    line: "const list: readonly unknown[] = Array.isArray(written) ? written : [];",
    becomes: '["Stryker was here"]',
    reason: "A text is no hook.",
  },
  {
    file: "infra/config/secret-checks.ts",
    line: '[`is missing, and site.notify is set. Run: ${newSecret(`${key}.notify`, "all")}`]:',
    becomes: '""',
    reason: "newSecret adds whsec_ for any value but undefined.",
  },
  ...[
    '"75722c10f60c9cb360533832f4ab4c70dd1e6e611ff0bb0e9dd1bbc14556fd88",',
    '"4824d2df8a8a9aee3c2c8bd0e7a816f413ff0a1ee5ab50c9bf49660d1f1b82b6",',
  ].map((line) => ({
    file: "infra/config/secret-checks.ts",
    line,
    reason: "A test would need the secret with this hash; it has that of the first.",
  })),
  ...[
    ['const [, kind, body = ""] =', '"Stryker was here!"'],
    [
      "/^-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----\\n([\\s\\S]+)\\n-----END \\1-----$/.exec(text) ?? [];",
      '["Stryker was here"]',
    ],
  ].map(([line, becomes]) => ({
    file: "infra/config/secret-checks.ts",
    line: line!,
    becomes: becomes!,
    reason: "Without a kind the body is read for marks of encryption, and the text has none.",
  })),
  {
    file: "infra/config/settings.ts",
    line: "written[name] = /^[[{]/.test(text) ? decoded(text) : text;",
    becomes: "/[[{]/",
    reason: "Text that is no JSON stays as it is.",
  },
  {
    file: "infra/config/settings.ts",
    line: "raw[token] !== undefined && isSecret(token) && !/^[\\w-]+$/.test(raw[token]),",
    becomes: "true",
    reason: "The word undefined has the characters of a token: a condition of the type's.",
  },
  {
    file: "infra/config/settings.ts",
    line: "if (output === undefined || faults.length > 0) throw new SettingsError(faults);",
    becomes: "false",
    reason: "Where the output is missing there is a fault, too: a condition of the type's.",
  },
  {
    file: "infra/config/settings.ts",
    line: "(Array.isArray(list) ? list : []).flatMap((entry: unknown, place) => {",
    becomes: '["Stryker was here"]',
    reason: "A text fits the shape of no entry.",
  },
  ...[
    "...Object.entries({ webRoot, ...(content !== undefined && { content }) }).flatMap(([name, path]) =>",
    "content !== undefined && isBelow(webRoot, content),",
  ].map((line) => ({
    file: "infra/config/site-checks.ts",
    line,
    becomes: "true",
    reason: "The word undefined names no folder: a condition of the type's.",
  })),
  {
    file: "infra/config/site-checks.ts",
    line: '/(^|\\/)\\.git(\\/|$)/i.test(folder ?? ""),',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a folder of git.",
  },
  {
    file: "infra/config/values.ts",
    line: 'new RegExp(pattern.replace(/\\(\\?[imsU-]+\\)/g, "").replaceAll("(?P<", "(?<"));',
    becomes: '"Stryker was here!"',
    reason: "Words in place of the flags are a regular expression, too.",
  },
  {
    file: "infra/config/values.ts",
    line: "} catch {",
    becomes: "{}",
    reason: "valibot takes undefined for false.",
  },
  ...[
    'state === "absent" ? [] : [[`hosts[${i}].hostname`, hostname]],',
    "site?.hostname === undefined ? [] : [[`hooks[${i}].site.hostname`, site.hostname]],",
  ].map((line) => ({
    file: "infra/edge/zone/dry-run.ts",
    line,
    becomes: '["Stryker was here"]',
    reason: "The text's second letter stands for a hostname then, and is none two labels below the zone.",
  })),
  {
    file: "infra/edge/api.ts",
    line: "if (body !== undefined) request.body = JSON.stringify(body);",
    becomes: "true",
    reason: "JSON.stringify(undefined) is undefined: a condition of the type's.",
  },
  {
    file: "infra/edge/canary.ts",
    line: 'if (outcomes.length === 1) return `${first.what}. ${first.fix ?? ""}`;',
    becomes: '"Stryker was here!"',
    reason: "Each outcome that rejects has a fix: a default of the type's.",
  },
  {
    file: "infra/edge/canary.ts",
    line: '{ status, error = "", headers }: CanaryAnswer,',
    becomes: '"Stryker was here!"',
    reason: "An answer without a status has an error: a default of the type's.",
  },
  {
    file: "infra/edge/client-certificate.ts",
    line: '.replace(/^[\\s\\S]*?(?=# generation)/, "")',
    becomes: "/[\\s\\S]*?(?=# generation)/",
    reason: "The first match begins at the first character, too.",
  },
  {
    file: "infra/edge/client-certificate.ts",
    line: 'const id = config?.certId ?? "";',
    reason: "The provider returns the one configuration that it got: a condition of the type's.",
  },
  {
    file: "infra/edge/expiry.ts",
    line: 'Math.floor((Date.parse(expiresOn.replace(/ [A-Z]+$/, "")) - now.getTime()) / 86_400_000);',
    becomes: "/ [A-Z]+/",
    reason: "Go's format has one such word.",
  },
  {
    file: "infra/edge/expiry.ts",
    line: 'const days = daysLeft(expiresOn ?? "", now);',
    becomes: '"Stryker was here!"',
    reason: "Without a date the next line returns.",
  },
  {
    file: "infra/edge/presented.ts",
    line: 'const isDeleted = (status: string | undefined): boolean => /delet/.test(status ?? "");',
    becomes: '"Stryker was here!"',
    reason: "Neither text has those letters.",
  },
  {
    file: "infra/edge/zone/drift.ts",
    line: 'const [text = "nothing", beside = "nothing"] = [value, other].map((one) => JSON.stringify(one));',
    becomes: '""',
    reason: "No JSON of more than 80 characters begins as that word does.",
  },
  {
    file: "infra/edge/zone/drift.ts",
    line: "while (same < text.length && text[same] === beside[same]) same++;",
    reason: "The two texts differ, which ends the loop before the longer one does.",
  },
  {
    file: "infra/edge/zone/dry-run.ts",
    line: 'hostname.endsWith(`.${name}`) ? hostname.slice(0, -name.length - 1) : "";',
    reason: "Each hostname is in the zone, or the configuration has a fault.",
  },
  {
    file: "infra/edge/zone/dry-run.ts",
    line: 'const wildcardOf = (hostname: string): string => hostname.replace(/^[^.]+/, "*");',
    becomes: "/[^.]+/",
    reason: "The first match begins at the first character, too.",
  },
  {
    file: "infra/edge/zone/dry-run.ts",
    line: "return declared[name].length > 0 && !isDeepStrictEqual(rules, merged(name, declared[name], rules));",
    reason: "A dry run of a ruleset that `up` does not write finds no fault of its own: the condition saves a request.",
  },
  {
    file: "infra/edge/zone/live-zone.ts",
    line: "const rulesets = [...(listed.rulesets ?? []), ...(listed.results ?? [])];",
    becomes: '["Stryker was here"]',
    reason: "The text has no kind, and is no ruleset of the zone's.",
  },
  {
    file: "infra/edge/zone/phase.ts",
    line: "if (value === null || value === undefined) return undefined;",
    becomes: "false",
    reason: "What is undefined is returned by the third line, too.",
  },
  {
    file: "infra/host/kit.ts",
    line: 'const text = textBeside(base, name).replace(/^@(\\w+)@\\n|@(\\w+)@/gm, (_, line?: string, word = "") => {',
    becomes: '"Stryker was here!"',
    reason: "A match has one of the two: a default of the type's.",
  },
  {
    file: "infra/host/preflight.ts",
    line: 'const version = /^systemd (\\d+)/.exec(answer(report, "systemd"))?.[1];',
    becomes: "/systemd (\\d+)/",
    reason: "systemctl --version begins with that word.",
  },
  {
    file: "infra/host/index.ts",
    line: '"builder-program": ofBuilder(programLayer("builder", settings, made.programs.builder ?? { sha256: "" })),',
    reason: "Only a stack without a site has no builder's program, and it has no such layer.",
  },
  ...[
    [
      'const [found = ""] = /\\d+(\\.\\d+)*/.exec(version.replace(/^\\d+:/, "")) ?? [];',
      "The shell prints no version without a number.",
    ],
    [
      'const candidate = lines.includes(name) ? lines[lines.indexOf(name) + 1]?.replace(/^=/, "") : undefined;',
      "The line begins with it, or is empty.",
    ],
    ['const root = seen.facts[i]?.output ?? "";', "The probe answers each fact, or preflight stops before."],
    ['const found = seen?.facts[i]?.output ?? "";', "The probe answers each fact, or preflight stops before."],
  ].map(([line, reason]) => ({ file: "infra/host/preflight.ts", line: line!, reason: reason! })),
  {
    file: "infra/host/firewall/firewall.ts",
    line: 'const elements = (cidrs: readonly string[]): string => cidrs.map((cidr) => `      ${cidr},`).join("\\n");',
    becomes: '""',
    reason: "nft reads the ranges of one line like those of several.",
  },
  {
    file: "infra/host/summary.ts",
    line: 'const keyed = changed.filter(({ name, state }) => state === "present" && applied.get(name)?.includes("secrets"));',
    becomes: "applied.get(name).includes",
    reason: "A changed host has a list: a condition of the type's.",
  },
  {
    file: "infra/host/summary.ts",
    line: 'webhookUrls({ ...settings, hosts: hosts.map((host) => ({ ...host, state: "present" })) });',
    becomes: '""',
    reason: "webhookUrls leaves out absent hosts, and a type has no third word.",
  },
  {
    file: "service/builder/content.ts",
    line: 'if (typeof dir !== "string" || !dir.startsWith("/")) return [];',
    becomes: "false",
    reason: "Another type has no startsWith, and the error has the same result: a condition of the type's.",
  },
  ...[
    [
      "disk",
      "for (let at = folders.pop(); at !== undefined && bytes <= most; at = folders.pop())",
      "true",
      "The loop below adds nothing then: it ends later alone.",
    ],
    [
      "disk",
      "if (stat) bytes += Math.max(stat.blocks * 512, block) / (stat.isDirectory() ? 1 : stat.nlink);",
      "true",
      gone,
    ],
    ["disk", "if (stat?.isDirectory()) folders.push(path);", "stat.isDirectory", gone],
    [
      "disk",
      "if (stat?.isDirectory()) folders.push(path);",
      "true",
      "To open what is no folder fails with ENOTDIR, which the walk expects.",
    ],
    [
      "disk",
      "if (performance.now() - from < slice) continue;",
      undefined,
      "It decides only how often other work goes on.",
    ],
    [
      "disk",
      'const { code = "", syscall } = error as NodeJS.ErrnoException;',
      '"Stryker was here!"',
      "An error with a system call has a code: a default of the type's.",
    ],
    [
      "disk-watch",
      "if (!found) return [];",
      undefined,
      "A Debian host has /tmp and /var/tmp, as the tests' computer has.",
    ],
    [
      "disk-watch",
      'const disks = [places.site, "/tmp", "/var/tmp"].flatMap((path) => {',
      '""',
      "No test fills the computer's own /tmp; a build that fills a host's is in test/hosts/rebuild/bounds.test.ts.",
    ],
    [
      "disk-watch",
      "await sleep(Math.max(pause, 4 * took), undefined, { ref: false });",
      undefined,
      "It decides only how long the watch rests.",
    ],
    ["disk-watch", "if (!watching) return;", "false", "`over` does nothing after the end of the watch."],
    [
      "disk-watch",
      "const found = await measure(places.work, most, () => watching);",
      "() => undefined",
      "Its test, a build that writes too many files, is left out (setup.ts).",
    ],
    [
      "disk-watch",
      "if (found.bytes > most) over(tooMuch(shares * releaseBytes));",
      "found.bytes >= most",
      "A site that takes the limit to the byte.",
    ],
    ["files", 'if (process.platform !== "linux") return use(`${folder}`);', undefined, "The tests run on Linux."],
    [
      "files",
      "if (`${path}`.startsWith(here)) Object.assign(error as Error, { path: folder + `${path}`.slice(here.length) });",
      "true",
      "All errors of these calls have a path below it.",
    ],
    [
      "files",
      'const [first = "", ...rest] = path.split("/");',
      '"Stryker was here!"',
      "A split text has a first part: a default of the type's.",
    ],
    ["files", "fsyncSync(descriptor);", ";", ordered],
    ["files", "syncFolder(dirname(path));", ";", ordered],
    ["files", "chmodSync(here, 0o755);", ";", asRoot],
    ["files", "if ((stat.mode & 0o700) !== 0o700)", undefined, asRoot],
    ["files", "try {", "{}", asRoot],
    [
      "files",
      "skip = (_path: string): boolean => false,",
      "() => undefined",
      "undefined is as little a reason to skip.",
    ],
    ["files", "for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {", undefined, sorted],
    [
      "lay",
      "if (built.sha256 === former.sha256 && hashOf(former.file)?.sha256 === built.sha256)",
      "true",
      "It saves the reading of a file that cannot be the same.",
    ],
    [
      "repository",
      "const left = ifThere(() => walk(git))?.files.filter((path) => /\\.lock$|(^|\\/)gc\\.pid$|\\/tmp_/.test(path)) ?? [];",
      '["Stryker was here"]',
      "The clone has no such file.",
    ],
    [
      "repository",
      "const fault = checkoutFault(read.stderr, freeOf(places.site)?.free.bytes ?? 0);",
      "freeOf(places.site).free",
      "The site's folder exists: a condition of the type's.",
    ],
    [
      "repository",
      "const commits = releases(places).flatMap((id) => readManifest(places, id)?.commit ?? []);",
      '["Stryker was here"]',
      "git rejects the name of such a ref.",
    ],
    [
      "repository",
      'const former = stdout.split("\\n").filter((ref) => ref !== "" && !commits.some((commit) => ref.endsWith(commit)));',
      "true",
      "git rejects a ref without a name.",
    ],
    [
      "repository",
      'const former = stdout.split("\\n").filter((ref) => ref !== "" && !commits.some((commit) => ref.endsWith(commit)));',
      '"Stryker was here!"',
      "git rejects a ref without a name.",
    ],
    [
      "repository",
      "if (used.code !== 0 || Number(used.stdout) > 0.8 * bytes) return;",
      "Number(used.stdout) >= 0.8 * bytes",
      "A clone of which four fifths to the byte are in use.",
    ],
    [
      "repository",
      'const clean = isNamed || isThere(".git/modules") ? [["clean", "-ffdxq"]] : [];',
      '""',
      "Where no submodule was, there is nothing to clean: it takes time alone.",
    ],
    [
      "make-release",
      "for (const [path, entry] of readManifest(places, id)?.files ?? []) {",
      '["Stryker was here"]',
      "A name without an entry is carried nowhere.",
    ],
    ["make-release", "} catch (error) {", "{}", "undefined is as little a place."],
    [
      "make-release",
      'if (["EEXIST", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;',
      undefined,
      "Only a disk that fails has another error there.",
    ],
    [
      "make-release",
      "needRoom(places.site, lstatSync(source).size);",
      ";",
      "test/service/builder/disk-full.test.ts fills a disk with a release, in the bundle.",
    ],
    [
      "make-release",
      'const env = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C" };',
      undefined,
      "sync is found without, and the tests' computer speaks no other language.",
    ],
    [
      "make-release",
      'const { code, stderr } = await runChild("sync", ["-f", site], { cwd: "/", env, seconds: 600 });',
      '""',
      "sync reads nothing of its folder.",
    ],
    [
      "make-release",
      'if (/No space left|quota/.test(stderr)) throw Object.assign(new Error(stderr), { code: "ENOSPC" });',
      undefined,
      "No file system of the tests' is full only when it is synced.",
    ],
    [
      "releases",
      'writeFileSync(path, `${JSON.stringify({ ...manifest, bytes, links: [...manifest.links], files })}\\n`, { flag: "wx" });',
      undefined,
      "The line above removes what was there: it keeps a second builder from the same draft.",
    ],
    ["releases", "syncFolder(places.manifests);", ";", ordered],
    [
      "releases",
      'const text = ifThere(() => readFileSync(path, "utf8"));',
      '""',
      "JSON.parse reads bytes as UTF-8, too.",
    ],
    ["releases", "return (ifThere(() => readdirSync(releases)) ?? [])", undefined, sorted],
    ["releases", 'let target = "";', '"Stryker was here!"', "Neither text leads to a release."],
    [
      "releases",
      "return id === undefined ? undefined : readManifest(places, id);",
      "false",
      "No release is named undefined: a condition of the type's.",
    ],
    [
      "releases",
      'if ((error as NodeJS.ErrnoException).code !== "EISDIR") throw error;',
      "false",
      "A rename in a folder that the builder has just written into has no other error, except of a disk that fails.",
    ],
    [
      "hugo",
      'if (isStopped()) return { ...stopped, output, printed: "" };',
      undefined,
      "A build that was stopped has the reason of the watch.",
    ],
    ["hugo", "if (Date.now() > until) throw neverEnds(busy);", "Date.now() >= until", "A moment to the millisecond."],
    ["hugo", "if (Date.now() > until) throw neverEnds();", "Date.now() >= until", "A moment to the millisecond."],
    [
      "hugo",
      'if (at < 0) return { output, printed: "" };',
      undefined,
      "The unit's own line comes first, and what it printed is none of JSON.",
    ],
    [
      "hugo",
      "return { printed: first.slice(line.length, at), output: output.slice(output.indexOf(end) + end.length) };",
      "first",
      "The unit's own line is no JSON.",
    ],
    [
      "hugo",
      'const text = ifThere(() => readFileSync(file, "utf8")) ?? "";',
      '"Stryker was here!"',
      "Neither text has the build's id.",
    ],
    [
      "hugo",
      'const [build, result = "", code = "", status = ""] = text.trimEnd().split(" ");',
      '"Stryker was here!"',
      "Root's report has four words: a default of the type's.",
    ],
    [
      "hugo",
      'if (code !== "ECONNRESET" && code !== "EPIPE")',
      undefined,
      "Only systemd resets a second connection, at a moment that no test chooses.",
    ],
    [
      "hugo",
      'const path = /((?:themes\\/[^\\s":]+\\/)?layouts\\/[^\\s":]+):\\d+/.exec(output)?.[1];',
      undefined,
      "The number behind the colon is not part of the path.",
    ],
    ["hugo", 'if (!stat) writeFileSync(inSource, "", { flag: "wx" });', undefined, "There is nothing at the path."],
    ["hugo", 'writeFileSync(path, text, { flag: "wx" });', undefined, "The line above removes what was there."],
    ["hugo", 'const connection = connect(socket).setEncoding("utf8");', '""', "It is Node's default."],
    [
      "hugo",
      "if (first.length < mostFirst) first += part.slice(0, mostFirst);",
      undefined,
      "A bound of memory: what is read of it is cut again.",
    ],
    [
      "hugo",
      "output = (output + part).slice(-mostOutput);",
      "output + part",
      "A bound of memory: a reason holds the last lines alone.",
    ],
    [
      "git",
      "const quoted = (word: string): string => `'${word.replaceAll(\"'\", \"'\\\\''\")}'`;",
      '""',
      "test/service/builder/build-pending.test.ts has such a path.",
    ],
    ["git", 'GIT_COMMITTER_EMAIL: "builder@localhost",', '""', "git takes an empty address, too."],
    ["git", 'GIT_TEMPLATE_DIR: "",', '"Stryker was here!"', "git goes on without a folder that is missing."],
    [
      "git",
      'GIT_SSH_COMMAND: agent && knownHosts ? sshCommand(agent, knownHosts) : "false",',
      "agent || knownHosts",
      "The settings have both or none.",
    ],
    [
      "git",
      "...(authorities !== undefined && { GIT_SSL_CAINFO: authorities }),",
      "true",
      "Node leaves out a variable that is undefined.",
    ],
    [
      "git-faults",
      'return printable(fatal ?? lines.at(-1) ?? stderr.trim().split("\\n").at(-1) ?? "", 200);',
      '"Stryker was here!"',
      "A split text has a last part: a default of the type's.",
    ],
    [
      "build-pending",
      "if (run.stay || !good) await cleanUp(site);",
      undefined,
      "What is left takes room alone, and goes after the next publish.",
    ],
    [
      "build-pending",
      "removeAsRoot(site.settings, site.places);",
      ";",
      "Only a host has folders that root has to remove: test/hosts/rebuild/bounds.test.ts.",
    ],
    [
      "build-pending",
      'await site.git(["gc", "--auto", "--quiet"]);',
      undefined,
      "git packs a clone by itself after thousands of objects.",
    ],
    [
      "build-pending",
      "while (performance.now() < until && !arrived(places, left)) await sleep(Math.min(500, least));",
      undefined,
      "It decides only how often the builder looks.",
    ],
    [
      "build-pending",
      'const cannotTake = ([reason = "", ...more]: readonly string[]): Run =>',
      '"Stryker was here!"',
      "There is a fault, or it is not called: a default of the type's.",
    ],
    [
      "run",
      'if (first?.kind === "rollback") Object.assign(run.last, await rollBack(site, first.release ?? ""));',
      '"Stryker was here!"',
      "A rollback names a release: a default of the type's.",
    ],
    [
      "run",
      "else if (head !== null) holdHead(places, head);",
      "true",
      "The word null is no commit, so that nothing is held.",
    ],
    ["child", "if (child.pid !== undefined) process.kill(-child.pid, signal);", "true", "The error is caught."],
    ["child", 'end("SIGTERM");', '""', "SIGKILL follows."],
    ["child", 'child.stderr.setEncoding("utf8").on("data", (part: string) => {', '""', "It is Node's default."],
    ["reports", 'return JSON.parse(readFileSync(reported, "utf8"));', '""', "JSON.parse reads bytes as UTF-8, too."],
    ["reports", "} catch {", "{}", "A function without a return returns undefined."],
    ["markers", "} catch {", "{}", "A function without a return returns undefined."],
  ].map(([name, line, becomes, reason]) => ({
    file: `service/builder/${name}.ts`,
    line: line!,
    ...(becomes !== undefined && { becomes }),
    reason: reason!,
  })),
  {
    file: "service/builder/disk-watch.ts",
    line: "took = performance.now() - from;",
    becomes: "performance.now() + from",
    reason: "It decides only how long the watch rests.",
  },
  {
    file: "service/builder/hugo.ts",
    line: 'const stopped: UnitEnd = { result: "signal", code: "killed", status: "KILL" };',
    becomes: '""',
    reason: "A build that was stopped has the reason of the watch.",
  },
  {
    file: "service/builder/markers.ts",
    line: 'if (code === "ENOENT") return undefined;',
    becomes: "false",
    reason: "An entry that goes between the look at the folder and its removal: no test chooses the moment.",
  },
  {
    file: "service/builder/places.ts",
    line: "syncFolder(work);",
    becomes: ";",
    reason: ordered,
  },
  {
    file: "service/builder/stay.ts",
    line: 'resolve((error as NodeJS.ErrnoException | null)?.code === "EPERM");',
    becomes: "false",
    reason: "Only a host has the egress table: test/hosts/rebuild/units.test.ts.",
  },
  ...[
    "if (statSync(folder).nlink === 0) return false;",
    'const socket = createSocket("udp4").on("error", () => resolve(false));',
  ].map((line) => ({
    file: "service/builder/stay.ts",
    line,
    reason: "Only a mount shows a folder that was removed, and only a kernel without IPv4 has no such socket.",
  })),
  {
    file: "service/builder/stay.ts",
    line: 'for (const folder of folders) watchers.push(watch(folder, () => wake()).on("error", () => {}));',
    becomes: '""',
    reason: "inotify reports no error of a folder that exists.",
  },
  {
    file: "service/builder/stay.ts",
    line: 'socket.send("", 9, (error) => {',
    becomes: '"Stryker was here!"',
    reason: "The kernel rejects a datagram whatever is in it.",
  },
  {
    file: "service/builder/stay.ts",
    line: 'resolve((error as NodeJS.ErrnoException | null)?.code === "EPERM");',
    becomes: '""',
    reason: "Only a host has the egress table: test/hosts/rebuild/units.test.ts.",
  },
  {
    file: "service/builder/setback.ts",
    line: "const known = code !== undefined ? byCode[code] : undefined;",
    becomes: "true",
    reason: "No row is named undefined: a condition of the type's.",
  },
  {
    file: "service/builder/room.ts",
    line: "const kept = () => (current === undefined ? stay : [current, ...stay]);",
    becomes: "false",
    reason: "No release is named undefined: a condition of the type's.",
  },
  {
    file: "service/builder/room.ts",
    line: "needRoom(places.site);",
    becomes: ";",
    reason: "Each later step of the run looks for room, too: this one ends it sooner.",
  },
  ...["lay", "markers", "releases", "reports"].map((name) => ({
    file: `service/builder/${name}.ts`,
    line: "} catch {",
    becomes: "{}",
    reason: "A function that ends without return gives undefined, too.",
  })),
  {
    file: "service/builder/gate.ts",
    line: 'if (code !== "ENOENT") throw error;',
    becomes: "false",
    reason: "Of the files that Hugo wrote a moment ago, only a disk that fails has other errors.",
  },
  {
    file: "service/builder/adopt.ts",
    line: "if (laid) files.set(path, { ...laid, built: release });",
    becomes: "true",
    reason: "Only a file that is removed between two calls has no hash.",
  },
  {
    file: "service/builder/content.ts",
    line: "const modules = (printed.slice(0, mostPrinted).match(/^\\{$.*?^\\}$/gms) ?? []).flatMap(parsed);",
    becomes: '["Stryker was here"]',
    reason: "A text that is no JSON names no folder, like no text.",
  },
  {
    file: "service/builder/hugo.ts",
    line: 'if (first !== "") return { result: "no first line", code: "", status: "", output, printed: "" };',
    becomes: '"Stryker was here!"',
    reason: "The reason of this result holds neither code nor status nor what was printed.",
  },
  {
    file: "service/builder/hugo.ts",
    line: "if (Date.now() > until) throw neverEnds(busy);",
    becomes: "false",
    reason: "The next connection ends at its own limit, with the same reason.",
  },
  {
    file: "service/builder/hugo.ts",
    line: "stop(hugo.socket, () => process.exit(1));",
    becomes: "() => undefined",
    reason: "It would end the process of the test.",
  },
  {
    file: "service/builder/markers.ts",
    line: "for (const { file } of markers) if (file && statOf(file.path)?.ino === file.stat?.ino) discard(file, []);",
    becomes: "file.stat.ino",
    reason: "An entry without a stat was gone when it was found, and is no marker whose work is done.",
  },
  {
    file: "service/builder/child.ts",
    line: "if (child.pid !== undefined) process.kill(-child.pid, signal);",
    becomes: "true",
    reason: "To end a process without a number throws, and the error is caught: a condition of the type's.",
  },
  {
    file: "service/builder/child.ts",
    line: 'child.stderr.setEncoding("utf8").on("data", (part: string) => {',
    becomes: '""',
    reason: "Node reads an empty name of an encoding as UTF-8.",
  },
  {
    file: "service/builder/child.ts",
    line: 'stop?.removeEventListener("abort", stopped);',
    becomes: '""',
    reason: "The signal lives no longer than the call.",
  },
  ...[
    "stop.signal.throwIfAborted();",
    "const unwatch = watchDisk(limits, places, (setback) => stop.abort(setback));",
  ].map((line) => ({
    file: "service/builder/git.ts",
    line,
    reason: "test/service/builder/disk-full.test.ts fills the disk while git writes, in the bundle.",
  })),
  {
    file: "service/builder/child.ts",
    line: 'end("SIGTERM");',
    becomes: '""',
    reason: "Node reads an empty name of a signal as SIGTERM.",
  },
  {
    file: "service/builder/markers.ts",
    line: "if (fstatSync(descriptor).uid !== process.getuid?.()) return;",
    becomes: "process.getuid()",
    reason: "Only Windows has no getuid: a condition of the type's.",
  },
  ...[
    "for (const entry of entries) discard(entry, []);",
    "for (const { file } of markers) if (file && statOf(file.path)?.ino === file.stat?.ino) discard(file, []);",
  ].map((line) => ({
    file: "service/builder/markers.ts",
    line,
    becomes: '["Stryker was here"]',
    reason: "These warnings go to no one: what is in that list does not matter.",
  })),
  {
    file: "service/builder/markers.ts",
    line: 'if (code === "ENOENT") return undefined;',
    becomes: '""',
    reason: "An entry that goes between the look at the folder and its removal: no test chooses the moment.",
  },
  ...[
    "const byAge = unstuck(rootRequests).sort((a, b) => (a.stat?.mtimeMs ?? 0) - (b.stat?.mtimeMs ?? 0));",
    '`request of uid ${stat?.uid ?? "unknown"} (${printable(name.toString(), 50)})`;',
  ].map((line) => ({
    file: "service/builder/markers.ts",
    line,
    reason:
      "An entry has no stat only where it goes at that moment, or is a mount that a member's FUSE closed to others.",
  })),
  ...[
    ["markers", 'if (markers.some(({ kind }) => kind === "rollback")) syncFolder(places.rootRequests);'],
    ["releases", "syncFolder(places.site);"],
  ].map(([name, line]) => ({
    file: `service/builder/${name}.ts`,
    line: line!,
    becomes: ";",
    reason: ordered,
  })),
  {
    file: "service/builder/releases.ts",
    line: 'const { files, links, ...rest } = JSON.parse(text ?? "");',
    becomes: '"Stryker was here!"',
    reason: "Neither text is JSON.",
  },
  ...[
    "const finished = new Set(ifThere(() => readdirSync(manifests)) ?? []);",
    "return (ifThere(() => readdirSync(releases)) ?? [])",
  ].map((line) => ({
    file: "service/builder/releases.ts",
    line,
    becomes: '["Stryker was here"]',
    reason: "No release has such a name.",
  })),
  {
    file: "service/builder/releases.ts",
    line: 'if (!ifThere(() => lstatSync(places.release(name.replace(/\\.json$/, ""))))) remove(join(places.manifests, name));',
    becomes: "/\\.json/",
    reason: "No release is named like what is left of a draft's name, either.",
  },
  {
    file: "service/builder/reports.ts",
    line: "if (turn !== undefined && given.settings.reports?.notify) {",
    becomes: "given.settings.reports.notify",
    reason: "Without reports nothing calls it; the type does not show that.",
  },
  {
    file: "service/builder/reports.ts",
    line: 'if (reports?.status) add(reports.folder, { to: "status", ...result, at: now() });',
    becomes: "reports.status",
    reason: "Without reports nothing calls it; the type does not show that.",
  },
  {
    file: "service/git-hosts/payload.ts",
    line: 'return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;',
    becomes: "true",
    reason: "A list is empty here, by shallow-json.ts, and no number reads as 40 digits: the condition is the type's.",
  },
  ...[
    'const [, scheme, host = "", port, path = ""] =',
    "/^(https|ssh):\\/\\/(?:[^@/]*@)?([^/:]+)(?::(\\d+))?\\/(.*)$/.exec(url) ?? [];",
  ].map((line) => ({
    file: "service/git-hosts/repository.ts",
    line,
    reason: "The configuration's own check admits no address that these words decide about: settings.test.ts.",
  })),
  {
    file: "service/git-hosts/bitbucket-webhooks.ts",
    line: 'const [project = "", name = ""] = names.slice(-2);',
    becomes: '"Stryker was here!"',
    reason: "The address of a repository has a project and a name; the type of a list allows none.",
  },
  {
    file: "service/git-hosts/gitlab-webhooks.ts",
    line: 'const at = new Date(answer.headers.date ?? "");',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a time.",
  },
  {
    file: "service/git-hosts/webhook-api.ts",
    line: '/<([^>]+)>\\s*;[^,]*\\brel="?next"?/.exec(headers.link ?? "")?.[1];',
    becomes: '"Stryker was here!"',
    reason: "Neither text has a link.",
  },
  {
    file: "service/git-hosts/payload.ts",
    line: "} catch {",
    becomes: "{}",
    reason: "A function that ends without `return` returns undefined, too.",
  },
  ...[
    "for (let at = 0; at < bytes.length; at++) {",
    "for (at++; at < bytes.length && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++;",
  ].map((line) => ({
    file: "service/git-hosts/shallow-json.ts",
    line,
    becomes: "at <= bytes.length",
    reason: "The byte after the last is undefined, and equals none that the parser looks for.",
  })),
  {
    file: "service/git-hosts/standard-signature.ts",
    line: 'timestamp: String(headers["webhook-timestamp"] ?? ""),',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a number.",
  },
  {
    file: "service/git-hosts/standard-signature.ts",
    line: 'const { id, timestamp, signature = "" } = read(headers);',
    becomes: '"Stryker was here!"',
    reason: "standardFault has found a missing signature before: the default is the type's.",
  },
  {
    file: "service/git-hosts/standard-signature.ts",
    line: "const off = seconds > 0 ? `${seconds} s old` : `${-seconds} s ahead of this host's clock`;",
    becomes: "seconds >= 0",
    reason: "Here the clocks differ by more than 300 seconds.",
  },
  {
    file: "service/receiver/answer.ts",
    line: 'if (!rejections.has(status)) rejections.set(status, rendered({ status: STATUS_CODES[status] ?? "" }));',
    becomes: '"Stryker was here!"',
    reason: "The receiver answers no status that Node has no name for; the type requires a text.",
  },
  {
    file: "service/receiver/answer.ts",
    line: 'const id = headers[markedBy(headers)?.deliveryHeader ?? ""];',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a header's name.",
  },
  {
    file: "service/receiver/app.ts",
    line: "if (!dialect.verify(secrets.get(hook.name) ?? [], body, req.headers)) return reject(res, 401, mismatch);",
    becomes: '["Stryker was here"]',
    reason: "readReceiver starts with a secret for each hook, or not at all; the type of a Map requires a default.",
  },
  {
    file: "service/receiver/limiter.ts",
    line: "if (address !== null && isIPv4(address)) return address;",
    reason: "ipaddr.js returns the same text, only later, and isIPv4 is false for null: a condition of the type's.",
  },
  ...["address === null && !ipaddr.isValid(address)", "false"].map((becomes) => ({
    file: "service/receiver/limiter.ts",
    line: 'if (address === null || !ipaddr.isValid(address)) return "unknown";',
    becomes,
    reason: "ipaddr.js finds null invalid, too: a condition of the type's.",
  })),
  {
    file: "service/receiver/limiter.ts",
    line: "return left >= 1 ? 0 : Math.ceil((1 - left) / perMs / 1000);",
    becomes: "left > 1",
    reason: "For 1, the seconds are 0, too.",
  },
  {
    file: "service/receiver/server.ts",
    line: 'server.on("drop", (peer) => record(0, `${bound.maxConnections} connections are open`, peer?.remoteAddress));',
    becomes: "peer.remoteAddress",
    reason: "Node passes the peer of each dropped connection; the type allows none.",
  },
  {
    file: "service/receiver/spool.ts",
    line: "if (known.files >= most && performance.now() - known.counted >= recount) {",
    becomes: "true",
    reason: "Only the time differs: the spool is counted for each delivery.",
  },
  {
    file: "service/spool-folder.ts",
    line: 'const { code = "" } = error as NodeJS.ErrnoException;',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a code of the list.",
  },
  ...['["Stryker was here"]', "stack.match"].map((becomes) => ({
    file: "service/receiver/app.ts",
    line: 'return [code ?? name, ...(stack?.match(/^ +at .*/m) ?? [])].map((part) => part.trim()).join(" ");',
    becomes,
    reason: "Node's errors have a stack; the type allows none.",
  })),
  {
    file: "service/receiver/app.ts",
    line: 'else if (performance.now() - exchange.started > patience) return reject(res, 429, entered, ["Retry-After", "1"]);',
    becomes: "performance.now() - exchange.started >= patience",
    reason: "Only the same fraction of a millisecond would differ.",
  },
  {
    file: "service/git-hosts/payload.ts",
    line: 'return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;',
    becomes: "true",
    reason: "parseShallow leaves lists empty, and no other value of JSON reads as 40 hexadecimal digits.",
  },
  {
    file: "service/receiver/answer.ts",
    line: 'if (!rejections.has(status)) rejections.set(status, rendered({ status: STATUS_CODES[status] ?? "" }));',
    becomes: "true",
    reason: "An answer that is rendered again is the same, only later.",
  },
  ...["false", "text.length < 200", "/^[ !#-[\\]-~]$/"].map((becomes) => ({
    file: "service/journal.ts",
    line: 'if (text !== null && text.length <= 200 && /^[ !#-[\\]-~]*$/.test(text)) return `"${text}"`;',
    becomes,
    reason: "JSON.stringify writes the same text, only later.",
  })),
  {
    file: "service/journal.ts",
    line: 'if (lines === "") setImmediate(flush);',
    becomes: "true",
    reason: "The second flush of a turn finds no line.",
  },
  ...(
    [
      ["if (bytes === chunk.length) {", "false"],
      ["if (bytes === chunk.length) {", "{}"],
      ["if (!keep) return;", "false"],
      [grows, "Math.max(limit, Math.max(declared, 2 * bytes))"],
      [grows, "true"],
      [grows, "bytes >= body.length"],
      ['const declared = Number(req.headers["content-length"] ?? 16 << 10);', '""'],
      ["await readBody(req, limit, false).catch(() => {});", "true"],
      ["clearTimeout(timer);", ";"],
    ] as const
  ).map(([line, becomes]) => ({
    file: "service/receiver/body.ts",
    line,
    becomes,
    reason: "Only the time and the memory differ: a test measures them, which setup.ts leaves out for mutants.",
  })),

  ...[
    "setInterval(() => servers.map((server) => server.closeIdleConnections()), 50).unref();",
    "setTimeout(() => servers.map((server) => server.closeAllConnections()), 10_000).unref();",
  ].map((line) => ({
    file: "service/receiver/server.ts",
    line,
    reason: "process.test.ts ends a receiver with open connections; by-hand.ts has the mutant of the first.",
  })),
  ...["service/metrics/builds.ts", "service/outbox.ts"].map((file) => ({
    file,
    line: "} catch {",
    becomes: "{}",
    reason: "A function that ends without `return` returns undefined, too.",
  })),
  {
    file: "service/metrics/metrics.ts",
    line: "perHook(hooks, ({ statusFile }) => (statusFile === undefined ? undefined : readBuilds(statusFile))),",
    becomes: "false",
    reason: "Node rejects undefined as a path, and readBuilds returns undefined: the condition is the type's.",
  },
  {
    file: "service/metrics/metrics.ts",
    line: 'await Promise.all(servers.map((server) => once(server, "listening")));',
    becomes: '""',
    reason: "A process can't listen twice on its own socket: metrics.test.ts passes one; by-hand.ts has the mutant.",
  },
  {
    file: "service/outbox.ts",
    line: 'readdirSync(folder, "buffer")',
    becomes: 'readdirSync(folder, "buffer").filter(([first]) => first !== 0x2e)',
    reason: "libuv sorts the names, too, which Node's documentation does not promise.",
  },
  {
    file: "service/reporter/send.ts",
    line: "if (isOld || post === undefined || channel === undefined) {",
    becomes: "false",
    reason: "Where there is no channel there is no post: the third condition is the type's.",
  },
  {
    file: "service/settings.ts",
    line: 'const names = env.LISTEN_FDNAMES?.split(":") ?? [];',
    becomes: '["Stryker was here"]',
    reason: "That is not the name of the socket for metrics.",
  },
  {
    file: "service/receiver/server.ts",
    line: 'const status = parserStatus[error.code ?? ""] ?? 400;',
    becomes: '"Stryker was here!"',
    reason: "Neither text is a key of the table.",
  },
  {
    file: "service/receiver/server.ts",
    line: "const places = sockets.length > 0 ? sockets.map((fd) => ({ fd })) : [{ ...settings.listen }];",
    reason: "process.test.ts passes sockets to a process, as systemd does; by-hand.ts has the mutant.",
  },
  ...[
    "if (!settings || !secrets || faults.length > 0) throw new SettingsFault(faults);",
    "if (!settings || faults.length > 0) throw new SettingsFault(faults);",
  ].map((line) => ({
    file: "service/settings.ts",
    line,
    reason: "Where a part is missing there is a fault, too: the first two conditions are the type's.",
  })),
  {
    file: "service/settings.ts",
    line: 'return report(`${file} is not readable (${(error as NodeJS.ErrnoException).code ?? "unknown"}): ${fix}`);',
    becomes: '""',
    reason: "An error of the file system has a code; the type allows none.",
  },
];

/** Nothing matched, and the first of the elements is not read: the list with one element is like the empty one. */
const readsAfterTheFirst = /^const \[, .*\] = .*\.exec\(.*\) \?\? \[\];$/;

/** A comment in a file on a host: only the golden files show it. */
const comment = /^["`]# /;

/** Whether a mutant that no test notices has a reason. `line`: the source's, without its indentation. */
export const isExplained = (file: string, line: string, replacement: string | undefined): boolean =>
  (replacement === '["Stryker was here"]' && readsAfterTheFirst.test(line)) ||
  (/^(""|``)$/.test(replacement ?? "") && comment.test(line)) ||
  survivors.some((each) => each.file === file && each.line === line && (each.becomes ?? replacement) === replacement);
