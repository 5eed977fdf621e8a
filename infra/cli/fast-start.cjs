// This process and those that it starts keep what Node compiled. They leave out what the SDK needs for functions that become
// text, for traces of the engine, for its Automation API and for stacks of compiled TypeScript (decision 003): a module of
// Node's own takes its place.
const { enableCompileCache, registerHooks } = require("node:module");
const { join } = require("node:path");
process.env.NODE_COMPILE_CACHE ??= join(__dirname, "../../node_modules/.cache/compile");
enableCompileCache?.();
const isTraced = process.env.TRACEPARENT || process.argv.some((text) => text.startsWith("--tracing"));
const left = isTraced ? /^$/ : /^(@npmcli\/arborist|typescript|\.\/automation|source-map-.*|@opentelemetry\/(?!api$).*)$/;
registerHooks?.({
  resolve: (name, context, next) =>
    next(left.test(name) && context.parentURL?.includes("/@pulumi/pulumi/") ? "node:path" : name, context),
});
