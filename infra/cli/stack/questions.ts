/** What init needs to know: its questions with their usual answers, and how they are answered. */
import * as v from "valibot";
import { gitHostAt, published } from "../../config/derived.ts";
import { checkShape, formOf, partAt, type Schema } from "../../config/faults.ts";
import { shape } from "../../config/schema.ts";
import { UserError } from "../../user-error.ts";
import { hasTerminal, prompted } from "../stack.ts";

export type Answers = Record<string, string>;

type Question = {
  readonly name: string; // the flag's, too
  readonly path: readonly (string | number)[]; // the key in the configuration
  /** The usual answer; an empty text leaves the key out, and undefined means that an answer is needed. */
  readonly usual?: (answers: Answers) => string | undefined;
  readonly isNeeded?: (answers: Answers) => boolean;
};

const host = ["hosts", 0];
const hook = ["hooks", 0];

export const questions: readonly Question[] = [
  { name: "zone", path: ["zone"] },
  { name: "plan", path: ["edge", "plan"], usual: ({ plan }) => plan },
  { name: "ssh", path: [...host, "ssh"] },
  { name: "name", path: [...host, "name"], usual: () => "web1" },
  { name: "address", path: [...host, "address"], usual: ({ address4 }) => address4 },
  { name: "address6", path: [...host, "address6"], usual: ({ address6 = "" }) => address6 },
  { name: "hostname", path: [...host, "hostname"], usual: ({ zone }) => `hooks.${zone}` },
  { name: "repository", path: [...hook, "repository"] },
  { name: "gitHost", path: [...hook, "gitHost"], usual: ({ repository = "" }) => gitHostAt(repository) },
  { name: "sources", path: [...hook, "sources"], isNeeded: ({ gitHost = "" }) => !Object.hasOwn(published, gitHost) },
  { name: "branch", path: [...hook, "branch"], usual: ({ branch = "main" }) => branch },
  { name: "hook", path: [...hook, "name"], usual: () => "site" },
  { name: "webRoot", path: [...hook, "site", "webRoot"], usual: ({ hook }) => `/var/www/${hook}` },
  { name: "content", path: [...hook, "site", "content"], usual: () => "" },
  { name: "siteHostname", path: [...hook, "site", "hostname"], usual: () => "" },
];
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

const schemaOf = ({ path }: Question): Schema => partAt(shape, path);

export const configured = (question: Question, answer: string): string | string[] =>
  schemaOf(question).item === undefined ? answer : answer.split(",").map((one) => one.trim());

/** What the key means, and its form where no usual answer shows it. */
export function explained(question: Question, usual: string | undefined): string {
  const schema = schemaOf(question);
  const form = schema.item === undefined ? formOf(schema) : `${formOf(schema.item)}, with commas between them`;
  const more = usual === undefined ? ` Use ${form}.` : usual === "" ? " May be empty." : "";
  return `${v.getMetadata(schema).description}${more}`;
}

function faultOf(question: Question, answer: string): string | undefined {
  if (answer === "" && question.usual !== undefined) return undefined;
  return checkShape(schemaOf(question), configured(question, answer)).faults[0]?.says;
}

/** `lookUp`: what an answer makes known, by the question's name. All faults before it are thrown as one UserError. */
export async function answered(
  flags: Answers,
  lookUp: Readonly<Record<string, (answer: string) => Promise<Answers>>>,
): Promise<Answers> {
  const answers: Answers = {};
  const faults: string[] = [];
  const stopOnFault = (): void => {
    if (faults.length > 0) throw new UserError(faults.join("\n"));
  };
  for (const question of questions) {
    const { name } = question;
    if (question.isNeeded?.(answers) === false) continue;
    const usual = question.usual?.(answers);
    const answer = flags[name] ?? (hasTerminal() ? await prompt(question, usual) : usual);
    const fault = answer === undefined ? `is missing: ${explained(question, usual)}` : faultOf(question, answer);
    if (fault !== undefined) faults.push(`${flagOf(name)} ${fault}`);
    if (answer !== undefined) answers[name] = answer;
    if (lookUp[name] === undefined) continue;
    stopOnFault();
    Object.assign(answers, await lookUp[name](answers[name]!));
  }
  stopOnFault();
  return answers;
}

async function prompt(question: Question, usual: string | undefined): Promise<string> {
  const { default: input } = await import("@inquirer/input");
  const asked = {
    message: `${question.name}: ${explained(question, usual)}`,
    ...(usual && { default: usual }),
    validate(answer: string) {
      const fault = faultOf(question, answer.trim());
      return fault === undefined || `That ${fault}`;
    },
  };
  return (await prompted((context) => input(asked, context))).trim() || (usual ?? "");
}
