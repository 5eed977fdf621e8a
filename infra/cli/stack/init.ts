/** Makes a stack of the operator's own. Without a terminal every answer is a flag. It overwrites nothing. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { overlapCidr } from "cidr-tools";
import { Option } from "commander";
import { Document, parseDocument } from "yaml";
import { runOnHost } from "../../apply/run-on-host.ts";
import { SettingsError } from "../../config/faults.ts";
import { type GitHostName, parseSettings } from "../../config/settings.ts";
import { vendorUrl } from "../../contract.ts";
import { cloudflareApi, zoneNamed } from "../../edge/api.ts";
import { isV4, networks } from "../../networks.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command } from "../command.ts";
import { jsonOf, must, pulumi } from "../stack.ts";
import { type Answers, answered, configured, explained, flagOf, questions } from "./questions.ts";
import { type Entry, entriesOf, nothing, proposals } from "./repository/proposal.ts";
import { defaultBranch } from "./repository/read.ts";
import { newSecret } from "./secret.ts";

async function tryHost(ssh: string): Promise<Answers> {
  const script = `id -u
sudo -n true 2>/dev/null && echo sudo || echo none
ip -o addr show scope global | awk '{ sub("/.*", "", $4); print $4 }'
`;
  const [uid, sudo, ...addresses] = (await runOnHost({ name: ssh, ssh, sudo: false }, script, 20)).trim().split("\n");
  if (uid !== "0" && sudo !== "sudo")
    throw new UserError(`${ssh} is not root, and sudo needs a password. Allow it NOPASSWD: ALL in /etc/sudoers.d.`);
  const seen = addresses.filter((address) => !overlapCidr([...networks.notPublic.cidrs], address));
  const [address4, address6] = [seen.find(isV4), seen.find((one) => !isV4(one))];
  return { sudo: uid === "0" ? "" : "true", ...(address4 && { address4 }), ...(address6 && { address6 }) };
}

async function planOf(zone: string, token: string | undefined, baseUrl: string): Promise<Answers> {
  if (token === undefined) return {};
  const live = await zoneNamed(cloudflareApi({ baseUrl, token }), zone);
  if (live === undefined) throw new UserError(`The token cannot read a zone ${zone}. Add that zone to its resources.`);
  if (live.status !== undefined && live.status !== "active")
    console.log(`The zone ${zone} is ${live.status}, not active: Cloudflare serves it once its name servers are set.`);
  return live.plan?.legacy_id === undefined ? {} : { plan: live.plan.legacy_id };
}

async function branchOf(repository: string): Promise<Answers> {
  const branch = await orUserError(defaultBranch(repository));
  return typeof branch === "string" ? { branch } : {};
}

/** What the repository says of its site. Where it cannot be read here, or a release's page, `failed` has the reason. */
async function readSite({ repository = "", branch = "", siteHostname }: Answers) {
  const site = { ...nothing, ...(siteHostname && { hostname: siteHostname }) };
  const missing = await orUserError(proposals({ repository, branch }, site));
  return missing instanceof UserError ? { entries: [], failed: [missing.message] } : entriesOf(missing, site);
}

function configOf(answers: Answers, entries: readonly Entry[], api: string): Readonly<Record<string, unknown>> {
  const document = new Document({});
  if (api !== vendorUrl) document.set("cloudflare:baseUrl", api);
  for (const question of questions) {
    const [key, ...below] = question.path;
    const answer = answers[question.name];
    if (answer) document.setIn([`pushgate:${key}`, ...below], document.createNode(configured(question, answer)));
  }
  for (const [path, value] of entries) document.setIn(["pushgate:hooks", 0, "site", ...path], value);
  if (answers.sudo) document.setIn(["pushgate:hosts", 0, "sudo"], true);
  return document.toJS();
}

/** Keys that init does not prompt for: a repository over SSH needs them. */
const ofSsh = /\.(knownHosts|deployKey)$/;

/** Throws SettingsError with the faults that `preview` would report. Returns those that remain to be done by hand. */
function remaining(config: ReturnType<typeof configOf>, hook: string, secret: string): string[] {
  const later = { "cloudflare:apiToken": "later", "pushgate:secrets": { [hook]: { current: secret } } };
  const texts = Object.entries({ ...config, ...later }).map(
    ([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)] as const,
  );
  try {
    parseSettings(Object.fromEntries(texts), () => true);
    return [];
  } catch (error) {
    if (!(error instanceof SettingsError) || error.faults.some(({ key }) => !ofSsh.test(key))) throw error;
    return error.faults.map(({ key, says }) => `pushgate:${key} ${says}`);
  }
}

/** The folder of the project, which pulumi searches for from this one upwards; this one if there is none. */
function projectFolder(): string {
  for (let folder = process.cwd(); folder !== dirname(folder); folder = dirname(folder))
    if (existsSync(join(folder, "Pulumi.yaml"))) return folder;
  return process.cwd();
}

/** pulumi names it by the last part of org/project/name. */
const fileOf = (stack: string): string => relative("", join(projectFolder(), `Pulumi.${basename(stack)}.yaml`));

async function makeStack(stack: string, config: object, hook: string, secret: string, token?: string): Promise<void> {
  const file = fileOf(stack);
  // Its prompts for a new passphrase are pulumi's own.
  const { code } = await pulumi(["stack", "init", stack], { shown: 1 });
  if (code !== 0) throw new UserError("pulumi stack init failed, see above; nothing was written.");
  // Ctrl-C ends pulumi; this program then removes what it began.
  const goOn = (): void => {};
  process.on("SIGINT", goOn);
  try {
    const document = parseDocument(existsSync(file) ? readFileSync(file, "utf8") : "");
    for (const [key, value] of Object.entries(config)) document.setIn(["config", key], value);
    writeFileSync(file, document.toString());
    const of = (key: string) => ["config", "set", "--secret", "--path", key, "--stack", stack];
    await must(of(`pushgate:secrets.${hook}.current`), secret);
    if (token !== undefined) await must(of("cloudflare:apiToken"), token);
  } catch (error) {
    // Removes the stack's file, too. Without the stack, another init would find the file and stop.
    await must(["stack", "rm", stack, "--yes"]);
    throw error;
  } finally {
    process.off("SIGINT", goOn);
  }
}

export const init = command({
  examples: [
    ["init", "prompts for everything, and explains it"],
    ["init --stack second", "another stack beside the first"],
  ],
}).addOption(new Option("--token <token>").env("CLOUDFLARE_API_TOKEN").hideHelp());
init.options.find(({ long }) => long === "--stack")!.default("live").description = "name of the new stack";
init.addOption(new Option("--api <url>").env("CLOUDFLARE_BASE_URL").default(vendorUrl).hideHelp());
for (const question of questions)
  init.option(`${flagOf(question.name)} <${question.name.toLowerCase()}>`, explained(question, question.usual?.({})));

init.action(async ({ stack = "live", token, api, ...flags }: Answers & { token?: string; api: string }) => {
  const file = fileOf(stack);
  if (existsSync(file))
    throw new UserError(`${file} exists, and init overwrites nothing. Edit it, or choose another --stack.`);
  const lookUp = { zone: (zone: string) => planOf(zone, token, api), ssh: tryHost, repository: branchOf };
  const answers = await answered(flags, lookUp);
  const { entries, failed } = await readSite(answers);
  const config = configOf(answers, entries, api);
  const secret = newSecret(answers.gitHost as GitHostName);
  const hook = answers.hook!;
  const left = remaining(config, hook, secret);
  await makeStack(stack, config, hook, secret, token);
  const { url } = jsonOf(await must(["whoami", "--json"])) as { url?: string };
  const next = [
    ...left,
    ...failed.map((why) => `npx pushgate tools ${hook}: ${why}`),
    ...(token === undefined ? ["npx pulumi config set --secret cloudflare:apiToken"] : []),
    "npx pulumi preview",
    "npx pulumi up",
    `npx pushgate build ${hook}`,
    "npx pushgate hook: enter at the git host what it prints, then push",
    "npx pushgate status",
  ];
  console.log(`
${file} is written, with a new secret for the hook ${hook}${token === undefined ? "" : " and the token of CLOUDFLARE_API_TOKEN"}. Next:
${next.map((step, i) => `  ${i + 1}. ${step}`).join("\n")}

Keep two things, each with a backup: the state, at ${url ?? "the place that `npx pulumi whoami -v` prints"}, and the
passphrase, if pulumi has one for this stack: it decrypts the secrets in ${file}. docs/operating.md says what to do when one of them is lost.`);
});
