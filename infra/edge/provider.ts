/** Cloudflare's provider, by `require`: an `import` loads the files of all 600 resources, a tenth of a second a preview. */
import { createRequire } from "node:module";

export const cloudflare = createRequire(import.meta.url)("@pulumi/cloudflare") as typeof import("@pulumi/cloudflare");
