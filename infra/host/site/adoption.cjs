// Lists the files of a web root that adopting it would lose. Exits with 1 where there are any, or where the builder has
// made nothing that could be compared. The host's node runs it with -e.
// Arguments: a copy of the builder's status.json, the web root, the hook.
const [, statusFile, webRoot, hook] = process.argv;
const { last, adoption } = JSON.parse(require("node:fs").readFileSync(statusFile, "utf8"));
const say = (text) => console.error("site: " + String(text).replace(/[\u0000-\u001f\u007f-\u009f]/g, "?"));
if (adoption === undefined) {
  say(webRoot + " stays a folder, as the builder has made nothing to replace it: " + last.reason);
  process.exit(1);
}
const { files, more } = adoption;
if (files.length + more === 0) process.exit(0);
say(webRoot + " holds " + (files.length + more) + " files that the build does not make and site.keep does not name:");
for (const file of files) say("  " + file);
if (more > 0) say("  and " + more + " more");
say("Nothing was changed. Name them in site.keep of " + hook + ", add them to the repository, or remove them.");
process.exit(1);
