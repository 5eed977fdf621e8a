/** The bundles of the programs as a host gets them, or with a protection removed, to test what it protects from. */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundling, type Program } from "../../infra/host/programs/programs.ts";

const service = fileURLToPath(new URL("../../service/", import.meta.url));

/** What the receiver's unit passes to Node. */
export const receiverFlags: readonly string[] = readFileSync(
  new URL("../../infra/host/receiver/pushgate-receiver.service", import.meta.url),
  "utf8",
)
  .match(/^ExecStart=\/usr\/bin\/node (.*)@program@$/m)![1]!
  .split(" ")
  .filter(Boolean);

/** Returns the text of a module to bundle. `file` is relative to service/, such as "git-hosts/hmac-signature.ts". */
export type Rewrite = (file: string, text: string) => string;

/** The receiver's signature check, changed so that it accepts every delivery, also one without a signature. */
export const hollowSignature: Rewrite = (file, text) =>
  file === "git-hosts/hmac-signature.ts"
    ? `export const isHmac = () => true;
export const hmacSignature = (title) => ({
  signatures: [{ header: title.toLowerCase(), prefix: "" }],
  signatureFault: () => undefined,
  verify: () => true,
});
`
    : text;

/** The reporter, changed so that it sends from an account without an egress table. */
export const anywhere: Rewrite = (file, text) => {
  if (file !== "reporter/main.ts") return text;
  const changed = text.replace("journal, isConfined)", "journal, async () => true)");
  if (changed === text) throw new Error(`${file} does not look for the egress table`);
  return changed;
};

/** The builder, changed so that it ends where it would wait for the next push, and runs without an egress table. */
export const ending: Rewrite = (file, text) => {
  if (file !== "builder/main.ts") return text;
  const ends = text.replace(
    /\(await buildPending\(context, journal, pauses, isConfined\)\) && .*;/,
    "(await buildPending(context, journal)) && false;",
  );
  if (ends === text) throw new Error(`${file} does not wait for the next marker`);
  return ends;
};

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
