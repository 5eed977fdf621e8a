/** The bundles of the programs as a host gets them, or with a protection removed, to test what it protects from. */
import { readFileSync, writeFileSync } from "node:fs";
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

/** One module with `from` replaced; without it, the test fails. */
export const replaced =
  (module: string, from: string, to: string): Rewrite =>
  (file, text) => {
    if (file !== module) return text;
    if (!text.includes(from)) throw new Error(`${module} has no longer: ${from}`);
    return text.replaceAll(from, to);
  };

export const both =
  (one: Rewrite, other: Rewrite): Rewrite =>
  (file, text) =>
    other(file, one(file, text));

/** The receiver, changed so that it accepts every delivery, also one without a signature. */
export const hollowSignature = both(
  replaced("receiver/app.ts", "if (fault !== undefined)", "if (false)"),
  replaced("receiver/app.ts", "if (!matches.includes(true))", "if (false)"),
);

const confined = [", isConfined)", ", async () => true)"] as const;
/** Builder and reporter, changed so that they use the network of an account without an egress table. */
export const anywhere = both(replaced("builder/main.ts", ...confined), replaced("reporter/main.ts", ...confined));

const whole: Rewrite = (_, text) => text;
/** A build takes 0.3 s of a core, and the files of a worker share this module. */
const built = new WeakMap<Rewrite, Map<Program, Promise<Uint8Array>>>();

export async function bundled(program: Program, outfile: string, rewrite = whole): Promise<void> {
  const bundles = built.get(rewrite) ?? new Map<Program, Promise<Uint8Array>>();
  built.set(rewrite, bundles);
  const bundle = bundles.get(program) ?? bundleOf(program, rewrite);
  bundles.set(program, bundle);
  writeFileSync(outfile, await bundle);
}

async function bundleOf(program: Program, rewrite: Rewrite): Promise<Uint8Array> {
  const { outputFiles } = await build({
    ...bundling,
    entryPoints: [`${service}${program}/main.ts`],
    write: false,
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
  return outputFiles[0]!.contents;
}
