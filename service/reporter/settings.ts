/** What the reporter starts from: its settings, a rendered, public JSON file, and its credentials. */
import { join } from "node:path";
import * as v from "valibot";
import { loadedAs } from "../credentials.ts";
import { gitHostNames } from "../git-hosts/index.ts";
import { type Environment, environment, readCredential, readShape, withFaults } from "../settings.ts";
import { absolute, hookName, text } from "../shapes.ts";
import { formatNames } from "./formats.ts";

const url = v.pipe(v.string(), v.regex(/^(https:\/\/|mailto:)[!-~]+$/));

export const reporterShape = v.object({
  hook: hookName,
  folder: absolute,
  /** The site's address, where pushgate serves it. */
  site: v.exactOptional(url),
  /** Where results are set on commits; absent without `secrets.<hook>.status`. */
  status: v.exactOptional(v.object({ gitHost: v.picklist(gitHostNames), repository: v.string(), context: text })),
  /** `socket`: of sendmail, for `email`, which has no secret. */
  notify: v.array(
    v.object({ name: hookName, url, format: v.picklist(formatNames), socket: v.exactOptional(absolute) }),
  ),
  /** Where Cloudflare takes what is to be purged of the site. */
  purge: v.exactOptional(url),
});

export type ReporterSettings = Readonly<v.InferOutput<typeof reporterShape>>;

export type Reporter = ReturnType<typeof readReporter>;

export const readReporter = (env: Environment = environment) =>
  withFaults((report) => {
    const settings = readShape(reporterShape, env, report);
    if (settings === undefined) return undefined;
    const read = (kind: "status" | "notify" | "purge"): string[] | undefined => {
      const name = loadedAs[kind];
      const words = readCredential(join(env.CREDENTIALS_DIRECTORY ?? "", name), name, report)
        ?.trim()
        .split("\n");
      // They become parts of headers.
      if (!words?.every((word) => /^[!-~]+$/.test(word)))
        return words && report(`the credential ${name} is not words of ASCII, one a line`);
      return words;
    };
    const [status] = (settings.status && read("status")) ?? [];
    const [purge] = (settings.purge && read("purge")) ?? [];
    const withSecret = settings.notify.filter(({ socket }) => socket === undefined);
    const named = withSecret.length === 0 ? [] : read("notify");
    const notify = Object.fromEntries(
      named?.map((word) => [word.split(":", 1)[0]!, word.replace(/^[^:]*:/, "")]) ?? [],
    );
    for (const { name } of named ? withSecret : [])
      if (!notify[name]) report(`the credential notify has no secret of ${name}`);
    const tokens = { ...(status !== undefined && { status }), ...(purge !== undefined && { purge }) };
    return { settings, secrets: { ...tokens, notify } };
  });
