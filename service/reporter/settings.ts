/** The reporter's settings: a rendered, public JSON file that service/settings.ts reads. */
import * as v from "valibot";
import { hookName } from "../builder/settings.ts";
import { gitHostNames } from "../git-hosts/index.ts";

const url = (what: string) =>
  v.pipe(v.string(`write ${what}`), v.regex(/^https:\/\/[!-~]+$/, `write ${what}, which begins with https://`));

export const reporterShape = v.object({
  hook: hookName,
  /** The folder into which the builder puts reports. */
  folder: v.pipe(v.string("write an absolute folder"), v.startsWith("/", "write an absolute folder")),
  /** Of the site, where pushgate serves it. */
  site: v.exactOptional(url("the site's URL")),
  /** Where results are set on commits; absent without `secrets.<hook>.status`. */
  status: v.exactOptional(
    v.object({
      gitHost: v.picklist(gitHostNames, "write the name of a git host"),
      repository: v.string("write the repository's address"),
      context: v.pipe(v.string("write a text"), v.nonEmpty("is empty: write a text")),
    }),
  ),
  /** `site.notify`. */
  notify: v.exactOptional(url("a URL")),
});

export type ReporterSettings = Readonly<v.InferOutput<typeof reporterShape>>;
