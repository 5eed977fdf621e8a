/** What Hugo's exit, its output and the names of the files say of a build. Pure. */
import { printable } from "../../printable.ts";
import { diskFull, listed, rejected } from "../run/setback.ts";
import type { BuilderSettings, Ended } from "../settings.ts";

/** A lack of processes in the words of Go, and of the shells and Node that start a site's tools. */
const noMoreProcesses =
  /failed to create new OS thread|fork\/exec \S+: resource temporarily unavailable|: Cannot fork\b|fork: (retry: )?Resource temporarily unavailable|spawn \S+ EAGAIN/;

/** What an error or a warning of Hugo means here. The first that matches counts. */
const causes: Readonly<Record<string, RegExp>> = {
  "the site imports a Hugo module that go.mod and go.sum do not name. Run hugo mod tidy, and commit both; or run hugo mod vendor, and commit _vendor.":
    /access denied: "go" is not whitelisted|binary with name "go" not found/,
  "the site needs $1$2 of npm. Set hooks[].site.npm to true, and commit a package-lock.json that names it.":
    /(?:binary with name|exec:|access denied:) "(npx|node|postcss|tailwindcss|babel)"(?:: executable file)? (?:is )?not|install with "npm install ([^"\n]+)"/,
  "the build does not find $1$2$3, which is imported. If it is of npm, set hooks[].site.npm to true, and commit a package-lock.json that names it.":
    /File to import not found or unreadable: ([^\s"]*[^\s".])|Can't find (stylesheet) to import|Could not resolve "([^"\n]+)"/,
  "this Hugo needs Node 22.13 or later. Run npx pushgate tools <hook> node=<release>, then npx pulumi up.":
    /bad option: --permission/,
  "the build may not use $1. Add it to hooks[].site.hugo.$2, which outranks the site's own configuration.":
    /access denied: "([^"\n]+)" is not whitelisted in policy "security\.(exec|http)\.(?:allow|urls)"/,
  "this release of Hugo is too old for Dart Sass. Run npx pushgate tools <hook> hugo=<release> sass=<release>, then npx pulumi up.":
    /TOCSS-DART: failed to transform [^\n]*dart-sass-embedded/,
  "the site needs Dart Sass. Run npx pushgate tools <hook> sass=<release>, then npx pulumi up.":
    /TOCSS-DART: failed to transform [^\n]*install Dart Sass/,
  "the site needs the extended edition of Hugo. Run npx pushgate tools <hook> hugo=<release>, then npx pulumi up.":
    /TOCSS: failed to transform [^\n]*not available in your current Hugo version/,
  "the build does not find $1. Install it in /usr/local/bin.":
    /(?:binary with name|exec:) "([^"\n]+)"(?:: executable file)? not found/,
  "the build does not reach $1. It reaches port 443 of public addresses that hooks[].site.hugo.http allows, and no other.":
    /Get "([^"\n]+)": dial /,
  "the repository has no theme or module $1. Commit it, or add it as a submodule, which hooks[].site.submodules allows.":
    /module "([^"\n]+)" not found/,
  "this Hugo has no function $1. Correct its name, or run npx pushgate tools <hook> hugo=<release>, then npx pulumi up.":
    /function "([^"\n]+)" not defined/,
};

const meant = (output: string): string | undefined => {
  const [text = "", pattern] = Object.entries(causes).find(([, pattern]) => pattern.test(output)) ?? [];
  return pattern && printable(pattern.exec(output)![0].replace(pattern, text), 400);
};

/** In their places since Hugo 0.146; an older one finds no layout there, and exits with 0. */
export const newLayouts =
  /(^|\/)layouts\/(_partials\/|_shortcodes\/|(baseof|home|page|section|single|list|all)(\.[^/]+)?\.html$)/;

/** For a build that went wrong: which Hugo the site needs, if Hugo or the layouts say so; else "". */
export function versionAdvice(output: string, files: readonly string[] = []): string {
  const [module] = /Module "[^"\n]+" is not compatible with this Hugo version[^;\n]*/.exec(output) ?? [];
  const [, version, minor] = /^hugo v(0\.(\d+)[.\d]*)/m.exec(output) ?? [];
  const layout = Number(minor) < 146 ? files.find((path) => newLayouts.test(path)) : undefined;
  const needed = layout && `${printable(layout, 100)} is a layout for Hugo 0.146 or later, and this is Hugo ${version}`;
  const why = module ? printable(module, 200) : needed;
  return why ? `${why}. Run npx pushgate tools <hook> hugo=<release>, then npx pulumi up. ` : "";
}

const mostWarnings = 5;

export function warningsOf(output: string): string[] {
  const lines = output.matchAll(/^(?:WARN +(?:\d{4}\/\d\d\/\d\d [\d:]{8} )?|(?=i18n\|))(.+)/gm);
  const all = new Set([...lines].map(([, text]) => text!));
  const shown = [...all].slice(0, mostWarnings).map((text) => `Hugo: ${meant(text) ?? printable(text, 300)}`);
  return all.size > mostWarnings ? [...shown, `Hugo: ${all.size - mostWarnings} more warnings`] : shown;
}

const configured = /^(?:(.+?)\/)??(?:config\/[^/]+\/[^/]+|hugo|config)\.(?:toml|ya?ml|json)$/;
/** Of a configuration, the folder that it is for, "" at the top; undefined for another file. */
const folderOf = (path: string): string | undefined => configured.exec(path)?.map((at = "") => at)[1];

/** Whether a configuration is Hugo's by its name or its words: a bare config.yml at the top may be a program's. */
export const isHugos = (path: string, text: (path: string) => string): boolean =>
  /(^|\/)(hugo|config\/_default\/[^/]+)\.\w+$/.test(path) ||
  /baseURL|languageCode|contentDir|\btheme\b/i.test(text(path));

/** Whether the file at this path, relative to a site or a module, is its configuration. */
export const isConfiguration = (path: string): boolean => folderOf(path) === "";

/** Whether the site's configuration names what makes Hugo run git, whatever its value. */
export const readsHistory = (files: readonly string[], text: (path: string) => string, folder = ""): boolean =>
  files.some((path) => folderOf(path) === folder && /enableGitInfo/i.test(text(path)));

/** After a reason why what go.mod and go.sum name cannot be fetched. */
export const moduleAdvice =
  "Run hugo mod tidy, and commit go.mod and go.sum; or run hugo mod vendor, and commit _vendor.";

const requirement = /^[\t ]*(?:require[\t ]+)?([\w.~-]+(?:\/[\w.~-]+)+)[\t ]+v\d/gm;

/** Whether a module of go.mod is named in the site's configuration, which maps it to no folder of the repository. */
export function needsModules({ files, text }: { files: readonly string[]; text: (path: string) => string }): boolean {
  if (!files.includes("go.mod")) return false;
  const configuration = files.filter(isConfiguration).map(text).join("\n");
  const paths = [...text("go.mod").matchAll(requirement)].map(([, path]) => path!);
  const isReplaced = (path: string) => new RegExp(`${path.replaceAll(".", "\\.")}\\s*->`).test(configuration);
  if (!paths.some((path) => configuration.includes(path) && !isReplaced(path))) return false;
  const [, workspace] = /^[\t ]*"?workspace"?[\t ]*[:=][\t ]*["']?([^"'\s]+\.work)/m.exec(configuration) ?? [];
  if (workspace)
    throw rejected(`the site's modules come from the workspace ${printable(workspace, 100)}. ${moduleAdvice}`);
  if (!files.includes("go.sum"))
    throw rejected(`go.sum is missing, which has the digests of the site's modules. ${moduleAdvice}`);
  return true;
}

/** For a build that went wrong: where Hugo's configuration is, if the site's folder has none; else "". */
export function folderAdvice(files: readonly string[], text: (path: string) => string, folder = ""): string {
  const others = /(^|\/)(themes|_vendor|node_modules|\.[^/]+)\//;
  const all = files.filter((path) => folderOf(path) !== undefined && !others.test(path));
  // Of most sites no text is read.
  if (all.every((path) => folderOf(path) === folder)) return "";
  const sure = folder === "" ? all.filter((path) => isHugos(path, text)) : [];
  const folders = new Set((sure.length > 0 ? sure : all).map((path) => folderOf(path)!));
  if (folders.has(folder)) return "";
  const found = listed([...folders].map((at) => at || "the top folder"));
  return ` Hugo's configuration is in ${found}, not in ${folder || "the top folder"}. Correct hooks[].site.folder.`;
}

export function reasonOf({ result, code, status, output }: Ended, limits: BuilderSettings["limits"], version = "") {
  const of = (limit: number | undefined, unit = "") => (limit === undefined ? "" : ` (${limit}${unit})`);
  if (/no space left on device|disk quota exceeded/i.test(output)) return diskFull;
  // Go's own words, where the kernel denied memory instead of killing Hugo (LimitDATA=).
  const memoryDenied = /^fatal error: .*(out of memory|cannot allocate memory)/m.test(output);
  if (memoryDenied || result === "oom-kill")
    return `the build reached its memory limit${of(limits.memoryMiB, " MiB")}. Raise hooks[].site.limits.memoryMiB.`;
  const tasks = `processes and threads${of(limits.tasks)}`;
  if (noMoreProcesses.test(output)) return `Hugo reached its limit of ${tasks}. Raise hooks[].site.limits.tasks.`;
  // A C library has the same word where it finds no memory for a thread's stack.
  if (output.includes("pthread_create failed"))
    return `Hugo got no thread, at its limit of memory${of(limits.memoryMiB, " MiB")} or of ${tasks}. Raise hooks[].site.limits.memoryMiB, or tasks.`;
  const said = lastLines(output);
  // Of what Hugo warns of, if its errors do not say.
  const cause = meant((output.match(/^(ERROR|Error:).*/gm) ?? []).join("\n")) ?? meant(output);
  const [, template] = /((?:themes\/[^\s":]+\/)?layouts\/[^\s":]+):\d+/.exec(output) ?? [];
  switch (result) {
    case "timeout":
      if (code === "exited") return "Hugo ended, and its unit did not: the host is too busy to build. Reduce its load.";
      return `the build took longer than its ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
    // systemd calls SIGTERM a success.
    case "success":
    case "signal":
    case "core-dump":
      return `Hugo was ended by the signal ${status}: by a person, or by a host without memory. See journalctl -k.`;
    case "resources":
      return "the host lacks the resources to start Hugo. See journalctl -u 'pushgate-generator-*'.";
    case "exit-code":
      // systemd cannot execute it.
      if (status === "203") return "Hugo cannot be started. Run npx pulumi up, which installs it.";
      // The unit's own program did not start Hugo, and says why.
      if (status === "78") return said;
      // A layout alone is a guess.
      if (cause) return `${version.startsWith("Module ") ? version : ""}${cause} (Hugo: ${said})`;
      return `${version}${template ? `the template ${printable(template, 200)} failed` : "Hugo failed"}: ${said}`;
    default:
      return `Hugo's unit ended by ${printable(result, 30)}. See journalctl -u 'pushgate-generator-*'. Its output: ${said}`;
  }
}

/** Hugo's errors, without greeting, totals and its whole security configuration. */
function lastLines(output: string): string {
  const lines = [...new Set(output.split("\n").map((line) => line.trim()))].filter(
    (line) => line !== "" && !/^(Start building|hugo v|Total in|\||-+\+|WARN)|logged \d+ error\(s\)$/.test(line),
  );
  const errors = lines.filter((line) => /^(ERROR|Error:|panic:|fatal)/.test(line));
  // Of templates that call each other, the last has the cause.
  const around =
    /^(ERROR|Error:) (\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d )?(.*: execute of template failed: )?|; the current security configuration is:/g;
  const words = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).map((line) => line.replace(around, ""));
  return printable(words.join(" | "), 1_000);
}
