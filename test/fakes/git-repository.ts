/**
 * A bare repository of a git host, written to as pushes would: real commits by `git fast-import`, refs by
 * `git update-ref`. Preparing a commit and pushing it are two things, so that many pushes can come at once.
 */
import { execFileSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Program, link and submodule are what git tracks as modes 100755, 120000 and 160000; null removes. */
export type Entry =
  | string
  | Buffer
  | { readonly program: string }
  | { readonly link: string }
  | { readonly submodule: string }
  | null;
export type Files = Readonly<Record<string, Entry>>;

const nothing = "0".repeat(40);

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

  /** Makes it; `folder` must not exist. */
  constructor(folder: string) {
    this.folder = folder;
    this.git("init", "--quiet", "--bare", "--initial-branch=main", folder);
    // What a public git host allows.
    this.git("config", "uploadpack.allowFilter", "true");
  }

  /** Standard output, trimmed; throws with git's words. */
  git(...args: string[]): string {
    return this.stream("", ...args);
  }

  private stream(input: string | Buffer, ...args: string[]): string {
    const at = args[0] === "init" ? [] : ["--git-dir", this.folder];
    return execFileSync("git", [...at, ...args], { env: isolated, input, stdio: ["pipe", "pipe", "pipe"] })
      .toString()
      .trim();
  }

  /** The commit a ref leads to; undefined where there is none. */
  head(ref = "refs/heads/main"): string | undefined {
    const found = this.git("for-each-ref", "--format=%(objectname)", ref);
    return found === "" ? undefined : found;
  }

  /** A commit that no ref leads to yet; `parent` null: one without history, holding only `files`. */
  prepare(files: Files, parent: string | null = this.head() ?? null, message = "a change"): string {
    const lines: (string | Buffer)[] = [
      "commit refs/prepared/one\nmark :1\ncommitter A Writer <writer@example.net> now\n",
      `data ${Buffer.byteLength(message)}\n${message}\n`,
      ...(parent === null ? [] : [`from ${parent}\n`]),
      ...Object.entries(files).flatMap(([path, entry]) => change(path, entry)),
      `\nget-mark :1\nreset refs/prepared/one\nfrom ${nothing}\n\ndone\n`,
    ];
    const input = Buffer.concat(lines.map((line) => Buffer.from(line)));
    return this.stream(input, "fast-import", "--quiet", "--force", "--done", "--date-format=now");
  }

  /** What a push does: the ref leads to this commit from now on. */
  point(commit: string, ref = "refs/heads/main"): void {
    this.git("update-ref", ref, commit);
  }

  /** `point` without a process of its own: hundreds come within a second. */
  moveTo(commit: string, ref = "refs/heads/main"): void {
    const file = join(this.folder, ref);
    writeFileSync(`${file}.lock`, `${commit}\n`);
    renameSync(`${file}.lock`, file);
  }

  /** Deletes a branch or a tag. */
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

  /** A force-push: the branch without its history, holding only these. */
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
