/** How the programs read their settings. All faults are reported at once, and none quotes a secret. */
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { tried } from "./tried.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export const environment: Environment = process.env;

export class SettingsFault extends Error {}

/**
 * Runs a program. Exits 78 (EX_CONFIG) on faulty settings, and 1 on any other error, which `describe` words: also where it
 * waits for what can no longer come, which Node takes for a good end.
 */
export function start(name: string, main: () => Promise<void>, describe: (error: Error) => Error = (error) => error) {
  // journald closes its end of the pipe when it restarts: a lost line must not stop the program.
  process.stdout.on("error", () => {});
  const fail = (error: Error) => {
    const isFaulty = error instanceof SettingsFault;
    process.stderr.write(`${name}: ${isFaulty ? error.message : describe(error).message}\n`);
    process.exit(isFaulty ? 78 : 1);
  };
  const unfinished = () => fail(new Error("it ended before its work did"));
  process.once("beforeExit", unfinished);
  main().then(() => process.off("beforeExit", unfinished), fail);
}

/** Adds a fault. Returns undefined in place of what the fault is about. */
export type Report = (fault: string) => undefined;

/** What `read` returns. Throws SettingsFault if it reported any. */
export function withFaults<T>(read: (report: Report) => T | undefined): T {
  const faults: string[] = [];
  const value = read((fault) => void faults.push(fault));
  if (value !== undefined && faults.length === 0) return value;
  const plural = faults.length === 1 ? "" : "s";
  throw new SettingsFault(`${faults.length} fault${plural}, not started:\n  ${faults.join("\n  ")}`);
}

function readText(file: string, fix: string, report: Report): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    return report(`${file} is not readable (${(error as NodeJS.ErrnoException).code ?? "unknown"}): ${fix}`);
  }
}

export const readCredential = (file: string, name: string, report: Report): string | undefined =>
  readText(file, `the unit's LoadCredentialEncrypted=${name} provides it`, report);

/** The settings of PUSHGATE_SETTINGS. Shapes admit unknown keys: an older bundle must start with a newer file. */
export function readShape<S extends v.GenericSchema>(shape: S, env: Environment, report: Report) {
  const file = env.PUSHGATE_SETTINGS;
  if (!file)
    return report(
      "PUSHGATE_SETTINGS is not set. Start the program by its unit, whose Environment= line names the file.",
    );
  const text = readText(file, "PUSHGATE_SETTINGS names it, `npx pulumi up` writes it", report);
  if (text === undefined) return undefined;
  const json: unknown = tried(() => JSON.parse(text));
  if (json === undefined) return report(`${file} is not JSON. Run npx pulumi up, which writes it anew.`);
  const { issues, success, output } = v.safeParse(shape, json);
  for (const issue of issues ?? [])
    report(`${file}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}. Run npx pulumi up, which writes it anew.`);
  return success ? output : undefined;
}
