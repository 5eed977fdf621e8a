/**
 * A repository and its host may change what git fetches, never what it runs. For each line git.test.ts or ssh.test.ts shows
 * what gets in without it; git passes the environment on to submodules.
 */
import { watchDisk } from "../build/disk-watch.ts";
import { type Ended, runChild } from "../child.ts";
import { placesOf } from "../places.ts";
import { failed } from "../run/setback.ts";
import type { Builder } from "../settings.ts";
import { memoryFault } from "./git-faults.ts";

const configuration = Object.entries({
  // A repository that wrote into .git through a fault of git would have its hooks run.
  "core.hooksPath": "/dev/null",
  // The generator would publish a link's target, such as /etc/passwd. git writes the link's text, which checkOut removes.
  "core.symlinks": "false",
  // A small fetch leaves loose objects; unsynced they are empty files after a power cut.
  "core.fsync": "committed,loose-object",
  "core.fsyncMethod": "batch",
  // A rollback's commit and a diff's base survive a forced push.
  "core.logAllRefUpdates": "always",
  "gc.reflogExpireUnreachable": "90.days",
  // Larger files are written piece by piece and not compared: git would hold them in memory.
  "core.bigFileThreshold": "16m",
  "pack.threads": "2",
  "pack.windowMemory": "32m",
  // In the background gc would hold locks in the next run, and leave a log that stops it for a day.
  "gc.autoDetach": "false",
  "maintenance.auto": "false",
  // Bytes a second, and seconds: a slow remote holds the build no longer than this.
  "http.lowSpeedLimit": "1000",
  "http.lowSpeedTime": "30",
  // A submodule whose host lacks one commit would fail each fetch, also that of the commit that corrects it.
  "fetch.recurseSubmodules": "false",
  // Where .gitattributes names Git LFS, its program brings the files. A checkout without one of them fails.
  "filter.lfs.process": "git-lfs filter-process",
  "filter.lfs.required": "true",
  // .gitmodules, .lfsconfig and a server of Git LFS name addresses.
  "url.https://.insteadOf": "http://",
  "lfs.transfer.enableHrefRewrite": "true",
  // The builder itself tries again.
  "lfs.transfer.maxRetries": "1",
});

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/** `-F none`: no configuration of ssh, and so no ProxyCommand. LogLevel: a greeting of the server is no error. */
function sshCommand(agent: string, knownHosts: string): string {
  const options = {
    ConnectTimeout: "15",
    GlobalKnownHostsFile: "none",
    IdentityAgent: `"${agent}"`,
    IdentityFile: "none",
    LogLevel: "ERROR",
    PreferredAuthentications: "publickey",
    ServerAliveInterval: "15",
    StrictHostKeyChecking: "yes",
    // ssh reads quotes inside the shell's quotes: without them a blank in the path would make it two files.
    UserKnownHostsFile: `"${knownHosts}"`,
  };
  const words = Object.entries(options).flatMap(([name, value]) => ["-o", quoted(`${name}=${value}`)]);
  return ["ssh", "-F", "none", ...words].join(" ");
}

export function environment({ settings, path, authorities }: Builder): Readonly<Record<string, string>> {
  const { agent, knownHosts } = settings;
  // One place for those of the repository and of its submodules, and for each file:// address in .lfsconfig.
  const all = [...configuration, ["lfs.storage", placesOf(settings).lfs]];
  const pairs = all.map(([key, value], i) => ({ [`GIT_CONFIG_KEY_${i}`]: key, [`GIT_CONFIG_VALUE_${i}`]: value }));
  return {
    PATH: path,
    // No ~/.gitconfig, no ~/.config/git, no ~/.netrc. systemd sets the account's home.
    HOME: "/nonexistent",
    GIT_ALLOW_PROTOCOL: "https:ssh",
    GIT_ATTR_NOSYSTEM: "1",
    // git must not take a repository above a broken clone for the clone.
    GIT_CEILING_DIRECTORIES: `${settings.site}/work`,
    // For the reflog git would look up the host's own name.
    GIT_COMMITTER_EMAIL: "builder@localhost",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_COUNT: String(all.length),
    ...Object.assign({}, ...pairs),
    // No hook and no configuration of the distribution in a clone.
    GIT_TEMPLATE_DIR: "",
    // Without a deploy key there is no SSH, whatever address a submodule has.
    GIT_SSH_COMMAND: agent && knownHosts ? sshCommand(agent, knownHosts) : "false",
    // These alone. libcurl would also trust each file of the distribution's folder, and take 50 ms to read them.
    GIT_SSL_CAINFO: authorities ?? "/etc/ssl/certs/ca-certificates.crt",
    GIT_SSL_CAPATH: "/nonexistent",
  };
}

export type Git = (args: readonly string[], cwd?: string) => Promise<Ended>;

/** git, by default in the clone. Throws Setback where the disk, or git's memory, is at its limit: no fault of the clone. */
export function gitOf(builder: Builder): Git {
  const env = environment(builder);
  const { limits } = builder.settings;
  const places = placesOf(builder.settings);
  return async (args, cwd = places.clone) => {
    const stop = new AbortController();
    // It only reads: a clone that is too large is made anew by the head in it.
    const isWatched = args[0] !== "rev-parse";
    const unwatch = isWatched ? watchDisk(limits, places, (setback) => stop.abort(setback)) : undefined;
    const ended = await runChild("git", args, { cwd, env, seconds: limits.seconds, stop: stop.signal });
    unwatch?.();
    stop.signal.throwIfAborted();
    const fault = memoryFault(ended);
    if (fault !== undefined) throw failed(fault);
    return ended;
  };
}
