// This process and those that it starts keep what Node compiled. A module of Node's own takes the place of what the SDK has
// for functions that become text, its Automation API, stacks of compiled TypeScript and traces (decision 003).
const { enableCompileCache, registerHooks } = require("node:module");
const { join } = require("node:path");
process.env.NODE_COMPILE_CACHE ??= join(__dirname, "../../node_modules/.cache/compile");
enableCompileCache?.();
// The SDK makes a stack's text for each of its promises, a hundred a resource: with ten lines a third of its time.
Error.stackTraceLimit = 3;
const left =
  /^(@npmcli\/arborist|typescript|normalize-package-data|upath|\.\/automation|source-map-.*|@opentelemetry\/(?!api$).*)$/;
const modules = [
  [left, "node:path"],
  [/\/closure\/v8Hooks$/, __filename],
];
const isTraced = process.env.TRACEPARENT || process.argv.some((text) => text.startsWith("--tracing"));
registerHooks?.({
  resolve(name, context, next) {
    const own = !isTraced && context.parentURL?.includes("/@pulumi/pulumi/") && modules.find(([of]) => of.test(name));
    return next(own ? own[1] : name, context);
  },
});
// In place of v8Hooks, which starts a debugger.
exports.isInitializedAsync = async () => {};

// Requests go through a proxy of the environment, as those of npm and pulumi do; the connection to the engine does not:
// an empty suffix fits every address.
const proxy = Object.keys(process.env).find((name) => /^https?_proxy$/i.test(name) && process.env[name]);
if (proxy) {
  process.env.no_grpc_proxy ??= ",";
  try {
    require("node:http").setGlobalProxyFromEnv();
  } catch {
    const needed = "a URL such as http://proxy.example.org:3128, and Node 24.14 or later";
    console.error(`pushgate: no request goes through ${proxy}, which needs ${needed}.`);
  }
}
