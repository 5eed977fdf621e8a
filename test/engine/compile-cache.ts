import { fileURLToPath } from "node:url";

/** Where Node keeps what it compiled. Node 22.1 and later read NODE_COMPILE_CACHE; an earlier one ignores it. */
export const compileCache = fileURLToPath(new URL("../../node_modules/.cache/compile", import.meta.url));

/**
 * For this process's children: each test file and each run of the engine start processes that load the same modules. It
 * saves a quarter of the cores' time of `npm test`.
 */
export function keepCompiled(): void {
  process.env.NODE_COMPILE_CACHE ??= compileCache;
}
