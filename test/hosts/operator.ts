/**
 * An operator's computer for a test that types what the documents say: a home of its own, git, npm and npx of this
 * computer, and a repository to clone, which holds this working tree. npm finds its packages in its cache, as the lab has
 * no network; the engine and the fakes of Pulumi's plugins are those of test/engine.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { engineVariables, fakePlugins, pluginCache, withoutDebugLogs } from "../engine/engine.ts";
import { engineVersion, findEngine, noEngine } from "../engine/install-engine.ts";
import { Terminal } from "../infra/cli/stack/terminal.ts";
import { run } from "./lab/process.ts";
import { sshFolder } from "./lab/ssh.ts";

const workingTree = fileURLToPath(new URL("../..", import.meta.url));

/** A repository of this working tree; a commit in `folder` is a release that `git pull` finds. */
export async function upstream(): Promise<{ folder: string; release: (text: string) => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-upstream-"));
  const left = new Set(["node_modules", ".git", ".stryker-tmp", ".vitest"]);
  cpSync(workingTree, folder, { recursive: true, filter: (path) => !left.has(basename(path)) });
  const git = (...words: string[]) =>
    run("git", ["-C", folder, "-c", "user.name=A Maintainer", "-c", "user.email=maintainer@example.net", ...words]);
  const release = async (text: string): Promise<void> => {
    await git("add", "--all");
    await git("commit", "--quiet", "--message", text);
  };
  await git("init", "--quiet", "--initial-branch=main");
  await release("the present version");
  return { folder, release };
}

export type Operator = Awaited<ReturnType<typeof startOperator>>;

/** A person's computer with nothing of pushgate's. `env`: more variables of the shell; `names`: their addresses. */
export async function startOperator(
  env: Readonly<Record<string, string>>,
  names: Readonly<Record<string, string>> = {},
) {
  const engine = findEngine();
  if (engine === undefined) throw new Error(noEngine);
  const home = mkdtempSync(join(tmpdir(), "pushgate-operator-"));
  const versions = join(home, ".pulumi/versions", engineVersion);
  mkdirSync(versions, { recursive: true });
  // Where the npm package "pulumi" looks for the engine before it downloads one.
  symlinkSync(dirname(engine), join(versions, "bin"));
  symlinkSync(pluginCache, join(home, ".pulumi/plugins"));
  withoutDebugLogs(join(home, ".pulumi"));
  const own = (process.env.PATH ?? "").split(delimiter).filter((entry) => !entry.includes("node_modules"));
  const npm = async (key: string) => (await run("npm", ["config", "get", key])).stdout.trim();
  // Pulumi keeps its state, and ssh its keys, in the home that /etc/passwd names, whatever $HOME is.
  const accounts = join(home, "passwd");
  const { username } = userInfo();
  const others = readFileSync("/etc/passwd", "utf8").replace(new RegExp(`^${username}:.*\\n`, "m"), "");
  writeFileSync(accounts, `${username}:*:0:0:an operator:${home}:/bin/bash\n${others}`);
  symlinkSync(sshFolder(), join(home, ".ssh"));
  const known = join(home, "hosts");
  const lines = Object.entries({ localhost: "127.0.0.1", ...names }).map(([name, address]) => `${address} ${name}\n`);
  writeFileSync(known, lines.join(""));
  const mounted = `mount --bind '${accounts}' /etc/passwd && mount --bind '${known}' /etc/hosts && exec "$@"`;
  const terminal = new Terminal({
    cwd: home,
    within: ["unshare", "--mount", "sh", "-c", mounted, "operator"],
    env: {
      HOME: home,
      PATH: [...fakePlugins(engine), ...own].join(delimiter),
      npm_config_cache: await npm("cache"),
      npm_config_registry: await npm("registry"),
      npm_config_offline: "true",
      npm_config_update_notifier: "false",
      // Saves compiling pushgate and the SDK again for each line that is typed.
      NODE_COMPILE_CACHE: join(home, ".cache/compile"),
      ...engineVariables,
      ...env,
    },
  });
  await terminal.run("stty rows 60 columns 180");
  const close = async () => {
    await terminal.close();
    // npm may still write its log.
    rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  };
  return { folder: home, home, terminal, close };
}
