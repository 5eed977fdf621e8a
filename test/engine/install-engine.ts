/**
 * `node test/engine/install-engine.ts` builds the Pulumi engine from its Go module, unless it is installed, into
 * `${PULUMI_HOME:-~/.pulumi}/versions/<version>/bin/pulumi`, where the npm wrapper finds it.
 *
 * The build is written beside that path and then renamed, so that an interrupted build installs nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The same release as @pulumi/pulumi in package.json and as test/engine/module/go.mod. */
export const engineVersion = "3.259.0";

/** Environment of Go's compiler, the engine and esbuild: each process ends before it needs to collect garbage. */
export const shortRuns = { GOGC: "off", GOMEMLIMIT: "1500MiB" };

/** The first Go release that the module's go.mod accepts. */
const goMinimum = [1, 25, 11] as const;

const moduleFolder = fileURLToPath(new URL("module", import.meta.url));
const home = process.env.PULUMI_HOME ?? join(homedir(), ".pulumi");
const folder = join(home, "versions", engineVersion, "bin");

/** The path of the cached engine, which may not exist yet. */
const enginePath = join(folder, "pulumi");

const pathEntries = (): string[] => (process.env.PATH ?? "").split(delimiter).filter((entry) => entry !== "");

/** The release that `pulumi version` prints, such as "3.259.0"; undefined if it does not run. */
function releaseOf(pulumi: string): string | undefined {
  const env = { ...process.env, PULUMI_SKIP_UPDATE_CHECK: "true" };
  const { status, stdout } = spawnSync(pulumi, ["version"], { encoding: "utf8", env, timeout: 20_000 });
  return status === 0 ? /^v?(\d+\.\d+\.\d+)/.exec(stdout.trim())?.[1] : undefined;
}

/**
 * The cached `pulumi`, whose path names its release, else an installed one of the same minor release. Never
 * node_modules/.bin/pulumi, which downloads an installer when it finds no engine.
 */
export function findEngine(): string | undefined {
  if (existsSync(enginePath)) return enginePath;
  const minor = engineVersion.replace(/\d+$/, "");
  const installed = pathEntries().flatMap((entry) => (entry.includes("node_modules") ? [] : join(entry, "pulumi")));
  return installed.find((path) => existsSync(path) && releaseOf(path)?.startsWith(minor));
}

/** Why nothing runs without an engine, with the command that builds one. */
export const noEngine =
  `pulumi ${engineVersion} is not installed: npm exec -- node test/engine/install-engine.ts ` +
  `(builds it once, about 4 minutes, needs Go ${goMinimum.join(".")} or newer)`;

/** The first `go` that is new enough by itself, so that it downloads no other toolchain. PATH often has an older one. */
export function findGo(program: string, minimum: readonly number[] = goMinimum): string {
  const folders = [...pathEntries(), "/usr/local/go/bin", join(homedir(), "go", "bin")];
  const seen: string[] = [];
  for (const go of folders.map((entry) => join(entry, "go")).filter((path) => existsSync(path))) {
    const env = { ...process.env, GOTOOLCHAIN: "local" };
    const { stdout } = spawnSync(go, ["env", "GOVERSION"], { encoding: "utf8", env, timeout: 20_000 });
    const [found, ...parts] = /^go(\d+)\.(\d+)(?:\.(\d+))?/.exec(stdout?.trim() ?? "") ?? [];
    seen.push(`${go} is ${found ?? "not runnable"}`);
    const version = parts.map((part) => Number(part ?? 0));
    const different = version.findIndex((part, index) => part !== minimum[index]);
    if (found && (different === -1 || version[different]! > minimum[different]!)) return go;
  }
  throw new Error(
    `${program} cannot be built without Go ${minimum.join(".")} or newer` +
      (seen.length > 0 ? ` (${seen.join(", ")})` : "") +
      ". Install Go from https://go.dev/dl/ into /usr/local/go.",
  );
}

function build(go: string, output: string): void {
  // The last one leaves gRPC out of Google's storage client, a tenth of the whole build.
  const tags = "osusergo,grpcnotrace,disable_grpc_modules";
  const variable = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version";
  const { status } = spawnSync(
    go,
    [
      ...["build", "-trimpath", "-mod=readonly", "-tags", tags, "-o", output],
      ...["-ldflags", `-w -s -X ${variable}=v${engineVersion}`, "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"],
    ],
    { cwd: moduleFolder, env: { ...process.env, ...shortRuns, GOTOOLCHAIN: "local" }, stdio: "inherit" },
  );
  if (status !== 0) throw new Error(`building pulumi ${engineVersion} failed (go build, exit ${status})`);
}

/** Returns the engine's path, and builds the engine first if there is none. */
export function installEngine(): string {
  const found = findEngine();
  if (found) return found;
  const go = findGo(`pulumi ${engineVersion}`);
  mkdirSync(folder, { recursive: true });
  const candidate = join(folder, `.pulumi-${process.pid}`);
  try {
    console.log(`building pulumi ${engineVersion} with ${go} into ${folder}; about 4 minutes on two cores`);
    build(go, candidate);
    const release = releaseOf(candidate);
    if (release !== engineVersion)
      throw new Error(`the built pulumi reports release ${release ?? "none"} and not ${engineVersion}`);
    renameSync(candidate, enginePath);
    return enginePath;
  } finally {
    rmSync(candidate, { force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    console.log(installEngine());
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
