/**
 * `npm run check`, third step: the words that this project does not use, because a reader cannot know who or what they
 * mean, and links and files' names in documents that lead nowhere. Reads comments, texts in quotes, shell scripts,
 * units and Markdown; names in code are not prose.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";

type Rule = { readonly word: RegExp; readonly instead: string };

const rules: readonly Rule[] = [
  { word: /\b(nobody|somebody|anybody|whoever|whom)\b/i, instead: "name the user, the account or the program" },
  { word: /(?<!virtual )(?<!state )\bmachines?\b(?![-.]|ctl)/i, instead: "host" },
  { word: /\b(cures?|cured|mend(s|ed|ing)?)\b/i, instead: "fix" },
  { word: /\b(says?|said|saying) no\b(?! more)/i, instead: "reject" },
  { word: /\btak(e|es|en|ing) (it |them )?away\b|\btook (it |them )?away\b/i, instead: "remove" },
  { word: /\b(ours|theirs)\b/i, instead: "name the owner and the thing" },
  { word: /\b(tell|tells|told|telling)\b(?! (\w+ )*(apart|from)\b)/i, instead: "report, print or say" },
  { word: /\b(ask|asks|asked|asking)\b/i, instead: "request, query, probe or connect" },
  { word: /\bstands\b(?! for)|\bstood in\b|\bstand-?ins?\b/i, instead: "is active; a stand-in of the tests is a fake" },
  { word: /\b(a|the|some) hand\b|\bhand's\b/i, instead: "a manual change" },
  { word: /\bthe edge\b/i, instead: "Cloudflare" },
  // `can't evaluate field` is an error of Go.
  { word: /\bcan't\b(?! evaluate)/i, instead: "cannot" },
  // In lower case only as a command, a package or a part of a name.
  {
    word: /\bhugo's\b|\b(an?|by|of|that|the|where|while|with) hugo\b(?![-./:])|\bhugo (ended|exits|failed|was|wrote)\b/,
    instead: "Hugo",
  },
  { word: /\bover ssh\b(?![-./:])|\bssh (address|connection|session)/, instead: "SSH" },
];

/** Comments, and texts in quotes that hold a blank: a key or a name is no prose. */
const prose = /\/\*[\s\S]*?\*\/|(?<![:"'`\\])\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g;

/** The text with everything that is not prose blanked out, so that lines keep their numbers. */
function proseOf(file: string, text: string): string {
  const blank = (code: string) => code.replace(/[^\n]/g, " ");
  if (extname(file) === ".md") return text.replace(/^```[\s\S]*?^```/gm, blank).replace(/`[^`\n]+`/g, blank);
  if (![".ts", ".cjs"].includes(extname(file))) return text;
  let out = "";
  let at = 0;
  for (const { 0: found, index } of text.matchAll(prose)) {
    const keep = found.startsWith("/") || /\s/.test(found);
    out += blank(text.slice(at, index)) + (keep ? found.replace(/\$\{[^{}"'`]*\}/g, blank) : blank(found));
    at = index + found.length;
  }
  return out + blank(text.slice(at));
}

/** Files that quote other people's words, or these, and JSON, which has keys and no prose. */
const others = [/\.json$/, /^LICENSE$/, /^test\/prose\.ts$/, /^test\/engine\/(former|module)\//];

/** The anchors of a document's headings, as git hosts make them. */
const anchorsOf = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );

/** Links to files and headings of this repository that are not there. */
function brokenLinks(file: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)/g)];
  return links.flatMap(([link, to = "", anchor = ""]) => {
    const path = to === "" ? file : join(dirname(file), to);
    if (!existsSync(path)) return [link];
    return anchor === "" || anchorsOf(readFileSync(path, "utf8")).includes(anchor) ? [] : [link];
  });
}

/** Names of sources in a document that no file of this repository has, with or without its folders. */
const lostFiles = (text: string, tracked: readonly string[]): string[] =>
  [...text.matchAll(/`([\w./-]+\.(?:ts|sh|pl))`/g)].flatMap(([, name = ""]) =>
    tracked.some((file) => `/${file}`.endsWith(`/${name}`)) ? [] : [name],
  );

const trackedBy = (...paths: string[]): string[] =>
  execFileSync("git", ["ls-files", ...paths], { encoding: "utf8" })
    .trim()
    .split("\n");

/** Prints each rejected word, each broken link and each missing file; returns how many. */
function check(paths: readonly string[]): number {
  const all = trackedBy();
  const files = trackedBy(...paths).filter(
    (file) => ![...others, /\.(pem|tgz)$/].some((pattern) => pattern.test(file)),
  );
  let faults = 0;
  for (const file of files.filter((file) => file.endsWith(".md"))) {
    const text = readFileSync(file, "utf8");
    for (const lost of [...brokenLinks(file, text), ...lostFiles(text, all)]) {
      faults++;
      console.log(`${file}: ${lost} leads nowhere`);
    }
  }
  for (const file of files)
    for (const [i, line] of proseOf(file, readFileSync(file, "utf8")).split("\n").entries())
      for (const { word, instead } of rules) {
        const found = word.exec(line);
        if (found === null) continue;
        faults++;
        console.log(`${file}:${i + 1}: "${found[0]}": ${instead}\n    ${line.trim()}`);
      }
  return faults;
}

if (import.meta.main) {
  const faults = check(process.argv.slice(2));
  if (faults > 0) console.log(`${faults} rejected words (rules in test/prose.ts), broken links or missing files.`);
  process.exitCode = faults > 0 ? 1 : 0;
}
