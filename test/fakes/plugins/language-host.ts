/**
 * A fake of the nodejs language host: it runs the program with Node, which strips the types. It serves the calls of
 * `preview`, `up`, `refresh`, `destroy` and `import --generate-code=false`; for others the engine prints
 * "unimplemented".
 */
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { RunRequest } from "@pulumi/pulumi/proto/language_pb.js";
import { type End, serveLanguage } from "./language.ts";

/** The exit code of `cmd/run` after it has printed the error itself: the engine then adds nothing. */
const alreadyReported = 32;

async function run(request: RunRequest, engine: string): Promise<End> {
  const info = request.getInfo();
  // The runner in the program's own copy of @pulumi/pulumi.
  const program = createRequire(join(info?.getProgramDirectory() || request.getPwd(), "index.js"));
  const runner = program.resolve("@pulumi/pulumi/cmd/run/index.js");
  const given = {
    monitor: request.getMonitorAddress(),
    engine,
    organization: request.getOrganization(),
    project: request.getProject(),
    "root-directory": info?.getRootDirectory() ?? "",
    stack: request.getStack(),
    pwd: request.getPwd(),
    parallel: String(request.getParallel()),
  };
  const flags = Object.entries(given).flatMap(([flag, value]) => [`--${flag}`, value]);
  if (request.getDryrun()) flags.push("--dry-run");
  const env = {
    ...process.env,
    PULUMI_CONFIG: JSON.stringify(Object.fromEntries(request.getConfigMap().toObject())),
    PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(request.getConfigsecretkeysList()),
  };
  const { nodeargs = "" } = (info?.getOptions()?.toJavaScript() ?? {}) as { nodeargs?: string };
  const args = [...nodeargs.split(" ").filter(Boolean), runner, ...flags, request.getProgram()];
  // npm exec has put the program's own `node` first on PATH.
  const child = spawn("node", args, { cwd: request.getPwd(), env, stdio: ["ignore", "inherit", "inherit"] });
  const ended = await new Promise<number | string>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  if (ended === alreadyReported) return { bail: true };
  return ended === 0 ? {} : { error: `Program exited with non-zero exit code: ${ended}` };
}

await serveLanguage(run);
