/** Paths that no configuration may hold, and settings with such paths, past the schema. */
import type { Settings } from "../../../infra/config/settings.ts";
import { rebuilt, serving } from "../../fixtures.ts";

/** What a shell, systemd or nginx reads as more than a character; `/pwned` is a file that only a shell would make. */
export const hostile = [
  "$(echo >/tmp/pwned)",
  "`echo >/tmp/pwned`",
  ";echo >/tmp/pwned;",
  "&&echo >/tmp/pwned",
  "|cat",
  ">/tmp/pwned",
  "\necho >/tmp/pwned\n",
  "%n",
  ":",
  "'",
  '"',
  "\\",
  "$HOME",
  "*",
  "#",
  " ",
  "\t",
  "-x",
  "é",
];
/** `settings` with a site whose paths are these, past the schema. */
export const siteAt = (path: string): Settings =>
  serving(rebuilt, {
    webRoot: path,
    content: `${path}.content`,
    folder: path.slice(1),
    folders: { downloads: `${path}.downloads` },
    hugo: { path: `${path}.hugo`, minimum: "0.111.3", exec: [], http: [] },
  });
