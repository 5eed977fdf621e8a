/** The programs as machines get them, whole, or with something taken away to see what it was for. */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundling, type Program } from "../../infra/host/programs/programs.ts";

const service = fileURLToPath(new URL("../../service/", import.meta.url));

/** A module's text as it is to be bundled; `file`: relative to service/, "git-hosts/hmac-signature.ts". */
export type Rewrite = (file: string, text: string) => string;

/** The receiver's signature check, changed so that it accepts every delivery, also one without a signature. */
export const hollowSignature: Rewrite = (file, text) =>
  file === "git-hosts/hmac-signature.ts"
    ? "export const isWellFormed = () => true;\nexport const verify = () => true;\n"
    : text;

/** Writes the program's bundle to `outfile`. */
export async function bundled(program: Program, outfile: string, rewrite: Rewrite = (_, text) => text): Promise<void> {
  const folder = `${service}${program}`;
  await build({
    ...bundling,
    entryPoints: [`${folder}/main.ts`],
    outfile,
    logLevel: "silent",
    plugins: [
      {
        name: "rewrite",
        setup: (under) =>
          under.onLoad({ filter: /\/service\/.*\.ts$/ }, ({ path }) => ({
            contents: rewrite(relative(service, path), readFileSync(path, "utf8")),
            loader: "ts",
          })),
      },
    ],
  });
}
