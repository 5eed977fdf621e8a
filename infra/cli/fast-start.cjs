// Most of a short command's time, and a quarter of a preview's, goes into reading TypeScript and the SDK. This process and
// those that it starts keep what Node compiled. They also leave out two libraries, npm's and TypeScript's, with which the
// SDK turns a program's functions into text; pushgate has no such function. A module of Node's own takes their place.
const { enableCompileCache, registerHooks } = require("node:module");
const { join } = require("node:path");
process.env.NODE_COMPILE_CACHE ??= join(__dirname, "../../node_modules/.cache/compile");
enableCompileCache?.();
const left = ["@npmcli/arborist", "typescript"];
registerHooks?.({
  resolve: (name, context, next) =>
    next(left.includes(name) && context.parentURL?.includes("/@pulumi/pulumi/") ? "node:path" : name, context),
});
