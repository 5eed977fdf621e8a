/**
 * `npm run release -- 0.2.0`: gives CHANGELOG's section "Unreleased" that version and today's date, sets the version of the
 * package, commits both and tags the commit; the section is the tag's notes. It pushes nothing.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [version = ""] = process.argv.slice(2);
const git = (...words: string[]): string => execFileSync("git", words, { encoding: "utf8" }).trim();
const read = (file: string) => JSON.parse(readFileSync(file, "utf8"));
const changelog = readFileSync("CHANGELOG.md", "utf8");
/** What was tagged last, such as 0.1.0; "" before the first release. */
const [last = ""] = git("tag", "--list", "v*", "--sort=-version:refname").slice(1).split("\n");
const [, unreleased = ""] = changelog.split(/^## Unreleased$/m);
const [notes = ""] = unreleased.split(/^## /m).map((section) => section.trim());

const faults = [
  !/^\d+\.\d+\.\d+$/.test(version) && `"${version}" is no version. Run npm run release -- 0.2.0.`,
  version.localeCompare(last, "en", { numeric: true }) <= 0 && `${version} is not later than v${last}. Choose another.`,
  git("branch", "--show-current") !== "main" && "this is not main. Run git switch main.",
  git("status", "--porcelain") !== "" && "files are changed and not committed. Commit them, or run git stash.",
  notes === "" && 'CHANGELOG.md has nothing below "## Unreleased". Write what the release changes.',
].filter((fault) => fault !== false);
if (faults.length > 0) {
  console.error(faults.map((fault) => `release: ${fault}`).join("\n"));
  process.exit(1);
}

const date = new Date().toISOString().slice(0, 10);
writeFileSync("CHANGELOG.md", changelog.replace("## Unreleased\n", `## Unreleased\n\n## ${version} (${date})\n`));
for (const file of ["package.json", "package-lock.json"]) {
  const json = read(file);
  json.version = version;
  if (json.packages) json.packages[""].version = version;
  writeFileSync(file, `${JSON.stringify(json, null, 2)}\n`);
}
git("commit", "--quiet", "--all", "--message", `release: ${version}`);
git("tag", "--annotate", `v${version}`, "--cleanup=verbatim", "--message", `pushgate ${version}\n\n${notes}\n`);
console.log(`v${version} is tagged. Publish it with: git push --follow-tags origin main`);
