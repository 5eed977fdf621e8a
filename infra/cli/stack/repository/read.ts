/** A branch's small files, read by git on the operator's computer: nothing is checked out, so no filter and no hook runs. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { UserError } from "../../../user-error.ts";

/** Each path with its text, which is empty where it was not read; and the commits of submodules by their paths. */
export type Files = { readonly texts: ReadonlyMap<string, string>; readonly links: ReadonlyMap<string, string> };

const [seconds, mostBlocks, mostBytes] = [120, 1 << 20, 100_000]; // of all, 512 MiB in blocks of ulimit, of a file
const isRead =
  /(^|\/)(\.git(modules|attributes)|\.(hugo|node)-version|\.tool-versions|\.nvmrc|Dockerfile|Makefile|go\.mod)$|\.(toml|ya?ml|jsonc?)$|(^|\/)layouts\/.+\.html$/;

/** Of the operator's own configuration only that of SSH counts. Its promise throws a UserError with git's last line. */
function gitIn(folder: string, address: string) {
  const config = ["core.hooksPath=/dev/null", `remote.origin.url=${address}`, "remote.origin.promisor=true"];
  const own = ["--git-dir", folder, ...config.flatMap((line) => ["-c", line])];
  const env = {
    ...process.env,
    ...{ GIT_ALLOW_PROTOCOL: "https:ssh", GIT_ASKPASS: "false", GIT_TERMINAL_PROMPT: "0", GIT_TEMPLATE_DIR: "" },
    ...{ GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    GIT_SSH_COMMAND: "ssh -o BatchMode=yes -o ConnectTimeout=15",
  };
  const options = { env, encoding: "buffer", maxBuffer: 256 << 20, timeout: seconds * 1000 } as const;
  return async (args: readonly string[], input = ""): Promise<Buffer> => {
    const words = ["-c", `ulimit -f ${mostBlocks} && exec git "$@"`, "sh", ...own, ...args];
    const running = promisify(execFile)("sh", words, options);
    running.child.stdin?.on("error", () => {}).end(input);
    const { stdout } = await running.catch(({ stderr }) => {
      const said = String(stderr).trim().split("\n").at(-1);
      const why = said || `git ended after ${seconds} s, or at its limit of output`;
      throw new UserError(`${address} cannot be read on this computer: ${why}`);
    });
    return stdout;
  };
}

export async function defaultBranch(address: string): Promise<string | undefined> {
  const said = String(await gitIn("/nonexistent", address)(["ls-remote", "--symref", "origin", "HEAD"]));
  return /^ref: refs\/heads\/(\S+)\tHEAD/.exec(said)?.[1];
}

/** `commit`: or a branch. */
export async function readFiles(address: string, commit: string): Promise<Files> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-read-"));
  try {
    const git = gitIn(folder, address);
    await git(["init", "--quiet", "--bare"]);
    await git(["fetch", "--quiet", "--depth=1", "--no-tags", `--filter=blob:limit=${mostBytes}`, "origin", commit]);
    const listed = String(await git(["ls-tree", "-r", "-z", "FETCH_HEAD"])).matchAll(/(\d+) \w+ (\w+)\t([^\0]*)\0/g);
    const tree = [...listed].map(([, mode, id = "", path = ""]) => ({ path, id, isLink: mode === "160000" }));
    // git would fetch one that the server's filter left out. Without a filter larger ones are here, too.
    const here = String(await git(["cat-file", "--batch-check", "--batch-all-objects"]));
    const sizes = new Map([...here.matchAll(/^(\w+) blob (\d+)$/gm)].map(([, id, bytes]) => [id, Number(bytes)]));
    const isSmall = (id: string) => (sizes.get(id) ?? Number.POSITIVE_INFINITY) <= mostBytes;
    const ids = new Set(tree.flatMap(({ path, id }) => (isRead.test(path) && isSmall(id) ? [id] : [])));
    const texts = blobs(await git(["cat-file", "--batch"], [...ids].map((id) => `${id}\n`).join("")));
    const files = tree.flatMap(({ path, id, isLink }) => (isLink ? [] : [[path, texts.get(id) ?? ""] as const]));
    const links = tree.flatMap(({ path, id, isLink }) => (isLink ? [[path, id] as const] : []));
    return { texts: new Map(files), links: new Map(links) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** From "<id> blob <bytes>", a line, and the bytes. */
function blobs(output: Buffer): Map<string, string> {
  const texts = new Map<string, string>();
  for (let start = 0; start < output.length; ) {
    const end = output.indexOf("\n", start);
    const [id = "", , bytes] = output.toString("latin1", start, end).split(" ");
    texts.set(id, output.toString("utf8", end + 1, end + 1 + Number(bytes)));
    start = end + 2 + Number(bytes);
  }
  return texts;
}
