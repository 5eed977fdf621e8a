/**
 * `node test/hosts/lab/install-gitea.ts` builds Gitea from its Go module, unless it is built, into a folder beside the
 * lab's images: the program, and the files that it reads. The module lacks the scripts and styles of its pages.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { findGo, shortRuns } from "../../engine/install-engine.ts";
import { cache, made } from "./image.ts";

/** 1.27.3 is not whole in Go's module registry. */
const release = "1.26.0";
/** Of the module's files, as go.sum would have it. Its own go.sum has those of all others. */
const sum = "h1:fJP9dqLbzKrKWUVnCVTfVersZdVDuyJQLEDzCAOmKKA=";
const goMinimum = [1, 26, 2];
const folder = join(dirname(cache()), `gitea-${release}`);

/** The folder with the program `gitea`; undefined if it is not built. */
export const findGitea = (): string | undefined => (existsSync(folder) ? folder : undefined);

/** Why nothing runs without Gitea, with the command that builds it. */
export const noGitea =
  `Gitea ${release} is not built: npm exec -- node test/hosts/lab/install-gitea.ts ` +
  `(builds it once, about 4 minutes, needs gcc and Go ${goMinimum.join(".")} or newer)`;

function run(command: string, cwd: string, ...args: string[]): string {
  const env = { ...process.env, ...shortRuns, GOTOOLCHAIN: "local", CGO_ENABLED: "1", CGO_CFLAGS: "-O0" };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(`building Gitea ${release} failed (${command} ${args[0]}, exit ${status})\n${stdout}${stderr}`);
}

async function build(): Promise<void> {
  const go = findGo(`Gitea ${release}`, goMinimum);
  mkdirSync(cache(), { recursive: true });
  await made(folder, async (candidate) => {
    console.log(`building Gitea ${release} with ${go} into ${folder}; about 4 minutes on two cores`);
    const module = `code.gitea.io/gitea@v${release}`;
    const { Dir, Sum } = JSON.parse(run(go, candidate, "mod", "download", "-json", module)) as Record<string, string>;
    if (Sum !== sum) throw new Error(`${module} has the hash ${Sum} and not ${sum}. Nothing is built.`);
    // Without optimizing and debug information: 6.3 minutes of a core in place of 10.5, for a test of one minute.
    const flags = ["-trimpath", "-mod=readonly", "-gcflags", "all=-N -l -dwarf=false"];
    const tags = ["-tags", "sqlite,sqlite_unlock_notify"];
    const linked = ["-ldflags", `-w -s -X main.Version=${release}`];
    run(go, Dir!, "build", ...flags, ...tags, ...linked, "-o", join(candidate, "gitea"), ".");
    for (const part of ["templates", "options", "public"])
      cpSync(join(Dir!, part), join(candidate, part), { recursive: true });
    // Its account in the lab is not root's.
    run("chmod", candidate, "-R", "u=rwX,go=rX", ".");
    return candidate;
  });
}

if (process.argv[1] === import.meta.filename && findGitea() === undefined) await build();
