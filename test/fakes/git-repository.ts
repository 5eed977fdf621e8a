/**
 * A bare repository of the fake git host. Commits are real, by `git fast-import`, and refs change by `git update-ref`.
 */
import { execFileSync } from "node:child_process";

/** program, link and submodule are git's modes 100755, 120000 and 160000; null removes the path. */
export type Entry =
  | string
  | Buffer
  | { readonly program: string }
  | { readonly link: string }
  | { readonly submodule: string }
  | null;
export type Files = Readonly<Record<string, Entry>>;

const isolated: NodeJS.ProcessEnv = {
  PATH: process.env.PATH,
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "A Writer",
  GIT_AUTHOR_EMAIL: "writer@example.net",
  GIT_COMMITTER_NAME: "A Writer",
  GIT_COMMITTER_EMAIL: "writer@example.net",
};

export class Repository {
  readonly folder: string;

  readonly #nothing: string;

  /** Creates the repository, unless it exists. */
  constructor(folder: string, format: "sha1" | "sha256" = "sha1") {
    this.folder = folder;
    this.#nothing = "0".repeat(format === "sha1" ? 40 : 64);
    this.git("init", "--quiet", "--bare", "--initial-branch=main", `--object-format=${format}`, folder);
    // Public git hosts allow filters.
    this.git("config", "uploadpack.allowFilter", "true");
  }

  /** Returns git's standard output, trimmed; throws with git's message. */
  git(...args: string[]): string {
    return this.stream("", ...args);
  }

  private stream(input: string | Buffer, ...args: string[]): string {
    const at = args[0] === "init" ? [] : ["--git-dir", this.folder];
    return execFileSync("git", [...at, ...args], { env: isolated, input, stdio: ["pipe", "pipe", "pipe"] })
      .toString()
      .trim();
  }

  /** The commit of a ref; undefined if the ref does not exist. */
  head(ref = "refs/heads/main"): string | undefined {
    const found = this.git("for-each-ref", "--format=%(objectname)", ref);
    return found === "" ? undefined : found;
  }

  /** Creates a commit without a ref. With `parent` null it has no history and only `files`. */
  prepare(files: Files, parent: string | null = this.head() ?? null, message = "a change"): string {
    const lines: (string | Buffer)[] = [
      "commit refs/prepared/one\nmark :1\ncommitter A Writer <writer@example.net> now\n",
      `data ${Buffer.byteLength(message)}\n${message}\n`,
      ...(parent === null ? [] : [`from ${parent}\n`]),
      ...Object.entries(files).flatMap(([path, entry]) => change(path, entry)),
      `\nget-mark :1\nreset refs/prepared/one\nfrom ${this.#nothing}\n\ndone\n`,
    ];
    const input = Buffer.concat(lines.map((line) => Buffer.from(line)));
    return this.stream(input, "fast-import", "--quiet", "--force", "--done", "--date-format=now");
  }

  /** Points the ref to this commit, as a push does. */
  point(commit: string, ref = "refs/heads/main"): void {
    this.git("update-ref", ref, commit);
  }

  remove(ref: string): void {
    this.git("update-ref", "-d", ref);
  }

  /** Commits onto a branch and pushes it; returns the commit. */
  push(files: Files, { branch = "main", message }: { branch?: string; message?: string } = {}): string {
    const ref = `refs/heads/${branch}`;
    const commit = this.prepare(files, this.head(ref) ?? null, message);
    this.point(commit, ref);
    return commit;
  }

  /** Pushes 200 KiB of nested folders with 100 million paths to the file at `path`. */
  pushNested(path: string): string {
    const tree = (mode: string, of: string) =>
      this.stream(Array.from({ length: 10 }, (_, i) => `${mode} ${of}\t${i}\n`).join(""), "mktree");
    let nested = tree("100644 blob", this.git("rev-parse", `main:${path}`));
    for (let level = 1; level < 8; level += 1) nested = tree("040000 tree", nested);
    const commit = this.git("commit-tree", "-p", this.head()!, "-m", "x", nested);
    this.point(commit);
    return commit;
  }

  /** A force-push: the branch loses its history and holds only these files. */
  rewrite(files: Files, branch = "main"): string {
    const commit = this.prepare(files, null, "another history");
    this.point(commit, `refs/heads/${branch}`);
    return commit;
  }
}

function change(path: string, entry: Entry): (string | Buffer)[] {
  const name = JSON.stringify(path);
  const blob = (mode: string, text: string | Buffer) => {
    const bytes = Buffer.from(text);
    return [`M ${mode} inline ${name}\ndata ${bytes.length}\n`, bytes, "\n"];
  };
  if (entry === null) return [`D ${name}\n`];
  if (typeof entry === "string" || Buffer.isBuffer(entry)) return blob("100644", entry as string);
  if ("program" in entry) return blob("100755", entry.program);
  if ("link" in entry) return blob("120000", entry.link);
  return [`M 160000 ${entry.submodule} ${name}\n`];
}
