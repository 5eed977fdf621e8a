/**
 * Required before the builder: kills it before its nth change of the file system. Without a number, it prints the number
 * of changes at the end.
 */
const fs = require("node:fs");

const changes = ["chmodSync", "linkSync", "mkdirSync", "openSync", "renameSync", "rmdirSync", "symlinkSync", "unlinkSync"];
const at = Number(process.env.KILL_AT ?? 0);
let count = 0;
for (const name of [...changes, "writeSync", "writeFileSync", "fsyncSync"]) {
  const real = fs[name];
  fs[name] = (...args) => {
    if (name === "openSync" && !args[1]) return real(...args);
    count += 1;
    if (count === at) process.kill(process.pid, "SIGKILL");
    return real(...args);
  };
}
process.on("exit", () => process.stderr.write(`changes: ${count}\n`));
