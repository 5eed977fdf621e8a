// This process and those that it starts keep what Node compiled. They leave out what the SDK needs only to turn functions
// into text (decision 003): a module of Node's own takes its place.
const { enableCompileCache, registerHooks } = require("node:module");
const { join } = require("node:path");
process.env.NODE_COMPILE_CACHE ??= join(__dirname, "../../node_modules/.cache/compile");
enableCompileCache?.();
const left = ["@npmcli/arborist", "typescript"];
registerHooks?.({
  resolve: (name, context, next) =>
    next(left.includes(name) && context.parentURL?.includes("/@pulumi/pulumi/") ? "node:path" : name, context),
});
