/** What init needs to know: its questions with their usual answers, and how they are answered. */
import type { createInterface } from "node:readline/promises";
import * as v from "valibot";
import { gitHostAt, published } from "../../config/derived.ts";
import { formOf, type Schema, unwrapped } from "../../config/form.ts";
import { found } from "../../config/found.ts";
import { shape } from "../../config/schema.ts";
import { checked, range } from "../../config/values.ts";
import { answerTo, UserError } from "../stack.ts";

const { hosts, hooks, edge } = shape.entries;
const host = hosts.pipe[0].item.entries;
const hook = hooks.pipe[0].item.entries;
const site = hook.site.wrapped.pipe[0].entries;

export type Answers = Record<string, string>;

type Question = {
  /** The flag's name, too. */
  readonly name: string;
  /** One line for a person. */
  readonly explains: string;
  readonly schema: v.GenericSchema;
  /** The usual answer; an empty text leaves the key out, and undefined means that an answer is needed. */
  readonly usual?: (answers: Answers) => string | undefined;
  readonly isNeeded?: (answers: Answers) => boolean;
};

const isSelfHosted = ({ gitHost = "" }: Answers): boolean => !Object.hasOwn(published, gitHost);

export const aboutZone: readonly Question[] = [
  { name: "zone", explains: "Name of the zone at Cloudflare, such as example.org.", schema: shape.entries.zone },
];
export const aboutPlan: readonly Question[] = [
  {
    name: "plan",
    explains: "What the zone pays for: free, pro, business, enterprise or enterprise-bots.",
    schema: edge.pipe[0].entries.plan,
    usual: ({ plan }) => plan,
  },
  { name: "ssh", explains: "Where your own ssh finds the host, such as root@web1.example.org.", schema: host.ssh },
];
export const aboutRest: readonly Question[] = [
  { name: "name", explains: "Name of the host in previews.", schema: host.name, usual: () => "web1" },
  {
    name: "address",
    explains: "Public IPv4 address of the host, for DNS.",
    schema: host.address,
    usual: ({ address4 }) => address4,
  },
  {
    name: "address6",
    explains: "Public IPv6 address of the host, if it has one.",
    schema: host.address6.wrapped,
    usual: ({ address6 }) => address6 ?? "",
  },
  {
    name: "hostname",
    explains: "Hostname for hooks only: Cloudflare blocks everything else there.",
    schema: host.hostname,
    usual: ({ zone }) => `hooks.${zone}`,
  },
  {
    name: "repository",
    explains: "Address of the site's repository, by https:// if it is public, else by SSH, which needs a deploy key.",
    schema: hook.repository,
  },
  {
    name: "gitHost",
    explains:
      "Git host that delivers the pushes, such as github or forgejo; a GitLab of your own is gitlab-self-managed.",
    schema: hook.gitHost,
    usual: ({ repository = "" }) => gitHostAt(repository),
  },
  {
    name: "sources",
    explains: "Addresses that the self-hosted git host delivers from, with commas between them.",
    schema: checked(
      (answer) => answer.split(",").every((one) => v.is(range, one.trim())),
      "addresses or ranges in CIDR notation, with commas between them",
    ),
    isNeeded: isSelfHosted,
  },
  { name: "branch", explains: "Branch that is published.", schema: hook.branch, usual: () => "main" },
  { name: "hook", explains: "Last segment of the webhook's path.", schema: hook.name, usual: () => "site" },
  {
    name: "webRoot",
    explains: "Link that the web server serves; move a folder that is there away first.",
    schema: site.webRoot,
    usual: ({ hook }) => `/var/www/${hook}`,
  },
  {
    name: "content",
    explains: "Folder on the host with the content; empty if the posts are in the repository.",
    schema: site.content.wrapped,
    usual: () => "",
  },
  {
    name: "siteHostname",
    explains: "Hostname of the site, if pushgate is to serve it too; empty if another server does.",
    schema: site.hostname.wrapped,
    usual: () => "",
  },
];
export const all = [...aboutZone, ...aboutPlan, ...aboutRest];
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

type Prompt = (question: Question, usual: string | undefined) => Promise<string>;

/** A fault of an answer, or undefined. */
function faultOf({ schema, usual }: Question, answer: string): string | undefined {
  if (answer === "" && usual !== undefined) return undefined;
  const issue = v.safeParse(schema, answer).issues?.[0];
  if (issue === undefined) return undefined;
  return `${found(answer)}. Use ${formOf(unwrapped(schema as Schema))}.`;
}

/** Adds an answer to each question: from its flag, from a person, or the usual one. Throws all faults as one UserError. */
export async function answered(
  questions: readonly Question[],
  answers: Answers,
  flags: Answers,
  prompt?: Prompt,
): Promise<void> {
  const faults: string[] = [];
  for (const question of questions) {
    const { name, usual, isNeeded } = question;
    if (isNeeded?.(answers) === false) continue;
    const standard = usual?.(answers);
    const given = flags[name];
    const answer = given ?? (prompt ? await prompt(question, standard) : standard);
    if (answer === undefined) faults.push(`${flagOf(name)} is missing: ${question.explains}`);
    else answers[name] = answer;
    const fault = answer === undefined ? undefined : faultOf(question, answer);
    if (fault !== undefined) faults.push(`${flagOf(name)} ${fault}`);
  }
  if (faults.length > 0) throw new UserError(faults.join("\n"));
}

/** Prompts until the answer has no fault. */
export function prompter(line: ReturnType<typeof createInterface>): Prompt {
  return async (question, usual) => {
    console.log(`\n${question.explains}`);
    for (;;) {
      const shown = usual ? ` [${usual}]` : "";
      const typed = (await answerTo(line, `${question.name}${shown}: `)).trim();
      const answer = typed === "" && usual !== undefined ? usual : typed;
      const fault = faultOf(question, answer);
      if (fault === undefined) return answer;
      console.log(`That ${fault}`);
    }
  };
}
