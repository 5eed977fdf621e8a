/**
 * `node test/engine/install-engine.ts` builds the Pulumi engine from its Go module, unless it is installed, into
 * `${PULUMI_HOME:-~/.pulumi}/versions/<version>/bin/pulumi`, where the npm wrapper finds it.
 *
 * - The build is written beside that path and then renamed, so an interrupted build installs nothing.
 * - A second build waits for the first: two at once need twice the memory and the time.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
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
export const enginePath = join(folder, "pulumi");

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
  const minor = engineVersion.split(".").slice(0, 2).join(".") + ".";
  const installed = pathEntries()
    .filter((entry) => !entry.includes("node_modules"))
    .map((entry) => join(entry, "pulumi"));
  return installed.find((path) => existsSync(path) && releaseOf(path)?.startsWith(minor));
}

/** The reason to skip a test without an engine, with the command that builds one. */
export const noEngine =
  `pulumi ${engineVersion} is not installed: npm exec -- node test/engine/install-engine.ts ` +
  `(builds it once, about 4 minutes, needs Go ${goMinimum.join(".")} or newer)`;

/** Every `go` that may be new enough: PATH often finds a distribution's older one first. */
function goCandidates(): string[] {
  const folders = [
    ...pathEntries(),
    "/usr/local/go/bin",
    join(homedir(), "go", "bin"),
    join(homedir(), "sdk", "go", "bin"),
    "/usr/lib/go/bin",
    "/opt/go/bin",
  ];
  return [...new Set(folders)].map((entry) => join(entry, "go")).filter((path) => existsSync(path));
}

/** The first `go` that is new enough by itself, so that it downloads no other toolchain. */
export function findGo(): string {
  const seen: string[] = [];
  for (const go of goCandidates()) {
    const env = { ...process.env, GOTOOLCHAIN: "local" };
    const { stdout } = spawnSync(go, ["env", "GOVERSION"], { encoding: "utf8", env, timeout: 20_000 });
    const match = /^go(\d+)\.(\d+)(?:\.(\d+))?/.exec(stdout?.trim() ?? "");
    seen.push(`${go} is ${match?.[0] ?? "not runnable"}`);
    if (!match) continue;
    const version = [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
    const different = version.findIndex((part, index) => part !== goMinimum[index]);
    if (different === -1 || version[different]! > goMinimum[different]!) return go;
  }
  throw new Error(
    `pulumi ${engineVersion} cannot be built without Go ${goMinimum.join(".")} or newer` +
      (seen.length > 0 ? ` (${seen.join(", ")})` : "") +
      `. Install Go from https://go.dev/dl/ into /usr/local/go, or put pulumi ${engineVersion} on PATH.`,
  );
}

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Takes the build lock. Returns false if another build has finished meanwhile. Removes the lock of a dead process. */
async function takeLock(lock: string): Promise<boolean> {
  for (let printed = false; ; ) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holder = Number(existsSync(lock) ? readFileSync(lock, "utf8") : "0");
    if (holder > 0 && !alive(holder)) rmSync(lock, { force: true });
    else {
      if (!printed) console.log(`process ${holder} is building pulumi ${engineVersion}; waiting for it`);
      printed = true;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    if (releaseOf(enginePath) === engineVersion) return false;
  }
}

function build(go: string, output: string): Promise<void> {
  const started = Date.now();
  const seconds = () => Math.round((Date.now() - started) / 1000);
  // The last one leaves gRPC out of Google's storage client, a tenth of the whole build.
  const tags = "osusergo,grpcnotrace,disable_grpc_modules";
  const variable = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version";
  // -v prints a line for each of about 900 compiled packages, which the progress lines count.
  const child = spawn(
    go,
    [
      ...["build", "-v", "-trimpath", "-mod=readonly", "-tags", tags, "-o", output],
      ...["-ldflags", `-w -s -X ${variable}=v${engineVersion}`, "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"],
    ],
    {
      cwd: moduleFolder,
      env: { ...process.env, ...shortRuns, GOTOOLCHAIN: "local" },
      stdio: ["ignore", "inherit", "pipe"],
    },
  );
  let packages = 0;
  let tail = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    packages += text.split("\n").length - 1;
    tail = (tail + text).slice(-4000);
  });
  const ticker = setInterval(() => console.log(`  ${seconds()} s, ${packages} packages`), 15_000);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearInterval(ticker);
      if (code === 0) {
        console.log(`  built in ${seconds()} s`);
        resolve();
      } else {
        reject(new Error(`building pulumi ${engineVersion} failed (go build, exit ${code}):\n${tail}`));
      }
    });
  });
}

/** Returns the engine's path, and builds the engine first if there is none. */
export async function installEngine(): Promise<string> {
  const found = findEngine();
  if (found) return found;
  const go = findGo();
  mkdirSync(folder, { recursive: true });
  const lock = join(folder, ".building");
  if (!(await takeLock(lock))) return enginePath;
  const candidate = join(folder, `.pulumi-${process.pid}`);
  try {
    console.log(`building pulumi ${engineVersion} with ${go} into ${folder}; about 4 minutes on two cores`);
    await build(go, candidate);
    if (releaseOf(candidate) !== engineVersion) {
      throw new Error(`the built pulumi reports release ${releaseOf(candidate) ?? "none"} and not ${engineVersion}`);
    }
    renameSync(candidate, enginePath);
    return enginePath;
  } finally {
    rmSync(candidate, { force: true });
    rmSync(lock, { force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    console.log(await installEngine());
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
