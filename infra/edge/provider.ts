/**
 * Cloudflare's provider. By `require`, which loads the file of a resource when it is first used: an `import` loads the
 * files of all 600, which takes a tenth of a second in each preview.
 */
import { createRequire } from "node:module";

export const cloudflare = createRequire(import.meta.url)("@pulumi/cloudflare") as typeof import("@pulumi/cloudflare");
