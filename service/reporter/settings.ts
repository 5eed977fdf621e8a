/** The reporter's settings: a rendered, public JSON file that service/settings.ts reads. */
import * as v from "valibot";
import { absolute, hookName, text } from "../builder/settings.ts";
import { gitHostNames } from "../git-hosts/index.ts";

const url = v.pipe(v.string(), v.regex(/^https:\/\/[!-~]+$/));

export const reporterShape = v.object({
  hook: hookName,
  /** The folder into which the builder puts reports. */
  folder: absolute,
  /** The site's address, where pushgate serves it. */
  site: v.exactOptional(url),
  /** Where results are set on commits; absent without `secrets.<hook>.status`. */
  status: v.exactOptional(
    v.object({
      gitHost: v.picklist(gitHostNames),
      repository: v.string(),
      context: text,
    }),
  ),
  /** `site.notify`. */
  notify: v.exactOptional(url),
});

export type ReporterSettings = Readonly<v.InferOutput<typeof reporterShape>>;
