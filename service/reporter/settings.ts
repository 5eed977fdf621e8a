/** What the reporter starts from: its settings, a rendered, public JSON file, and its credentials. */
import { join } from "node:path";
import * as v from "valibot";
import { loadedAs } from "../credentials.ts";
import { gitHostNames } from "../git-hosts/index.ts";
import { type Environment, environment, readCredential, readShape, withFaults } from "../settings.ts";
import { absolute, hookName, text } from "../shapes.ts";
import { formatNames } from "./formats.ts";

const url = v.pipe(v.string(), v.regex(/^https:\/\/[!-~]+$/));

export const reporterShape = v.object({
  hook: hookName,
  folder: absolute,
  /** The site's address, where pushgate serves it. */
  site: v.exactOptional(url),
  /** Where results are set on commits; absent without `secrets.<hook>.status`. */
  status: v.exactOptional(v.object({ gitHost: v.picklist(gitHostNames), repository: v.string(), context: text })),
  notify: v.exactOptional(v.object({ url, format: v.picklist(formatNames) })),
  /** Where Cloudflare takes what is to be purged of the site. */
  purge: v.exactOptional(url),
});

export type ReporterSettings = Readonly<v.InferOutput<typeof reporterShape>>;

type Kind = "status" | "notify" | "purge";
export type Reporter = Readonly<{ settings: ReporterSettings; secrets: { [kind in Kind]?: string } }>;

export const readReporter = (env: Environment = environment): Reporter =>
  withFaults((report) => {
    const settings = readShape(reporterShape, env, report);
    const read = (kind: Kind) => {
      if (settings?.[kind] === undefined) return {};
      const name = loadedAs[kind];
      const text = readCredential(join(env.CREDENTIALS_DIRECTORY ?? "", name), name, report)?.trim();
      if (text === undefined) return {};
      // It becomes part of a header.
      if (!/^[!-~]+$/.test(text)) report(`the credential ${name} is not one word of ASCII`);
      return { [kind]: text };
    };
    const secrets = { ...read("status"), ...read("notify"), ...read("purge") };
    return settings && { settings, secrets };
  });
