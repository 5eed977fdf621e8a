/**
 * Required before the builder: appends each of its calls that change the disk below CALLS_BELOW to the file CALLS, in
 * order and with relative paths, and runs CALLS_PROGRAM before each, where that is set. git and sync are a line each.
 */
const fs = require("node:fs");
const children = require("node:child_process");

const { CALLS, CALLS_BELOW: root, CALLS_PROGRAM: program } = process.env;
const report = fs.openSync(CALLS, "a");
const { readlinkSync, writeSync } = fs;

const pathOf = (file) => (typeof file === "number" ? readlinkSync(`/proc/self/fd/${file}`) : String(file));
/** undefined for what is elsewhere, such as standard output. */
function below(file) {
  const path = pathOf(file).replace(/^\/proc\/self\/fd\/(\d+)/, (_, descriptor) => pathOf(Number(descriptor)));
  if (path === root) return ".";
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : undefined;
}

function note(...words) {
  if (program) children.spawnSync(program);
  writeSync(report, `${words.join(" ")}\n`);
}

const words = {
  chmodSync: "chmod",
  fsyncSync: "sync",
  linkSync: "link",
  mkdirSync: "mkdir",
  renameSync: "rename",
  rmdirSync: "rmdir",
  symlinkSync: "symlink",
  unlinkSync: "unlink",
  writeFileSync: "write",
};
for (const [name, word] of Object.entries(words)) {
  const real = fs[name];
  fs[name] = (first, second, ...rest) => {
    const paths = ["linkSync", "renameSync"].includes(name) ? [below(first), below(second)] : [below(first)];
    if (name === "symlinkSync") paths.splice(0, 1, below(second), first);
    if (paths[0] !== undefined) note(word, ...paths);
    return real(first, second, ...rest);
  };
}

const { spawn } = children;
children.spawn = (command, args, options) => {
  note(command, ...args.map((word) => below(word) ?? word));
  return spawn(command, args, options);
};
