/**
 * Every call of git, and its armour. What is in the repository, and what its host answers, may change what is fetched,
 * never what is run: no hooks, no filters, no helpers, no other transport than https and ssh, no configuration but this
 * page, no questions. All of it is in the environment, which git hands on to submodules; argv names only what the
 * settings name.
 */
import type { Builder } from "../settings.ts";
import { type Ended, runChild } from "./child.ts";
import { overSsh } from "./settings.ts";

const configuration: readonly (readonly [key: string, value: string])[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.attributesFile", "/dev/null"],
  ["core.excludesFile", "/dev/null"],
  ["core.autocrlf", "false"],
  // A link would be published as what it leads to, /etc/passwd for one: git writes its text in place, which is removed.
  ["core.symlinks", "false"],
  // Loose objects are what a small fetch leaves; unsynced they are empty files after a power cut.
  ["core.fsync", "committed,loose-object"],
  ["core.fsyncMethod", "batch"],
  // What was the head once stays for a season, so that a rollback's commit and a diff's base outlive a forced push.
  ["core.logAllRefUpdates", "always"],
  ["gc.reflogExpireUnreachable", "90.days"],
  // Tidied after a publish, in the foreground: a gc left behind would hold locks in the next run.
  ["gc.autoDetach", "false"],
  ["maintenance.auto", "false"],
  ["credential.helper", ""],
  ["http.followRedirects", "initial"],
  // Bytes a second, and seconds: a remote that trickles holds the build no longer than this.
  ["http.lowSpeedLimit", "1000"],
  ["http.lowSpeedTime", "30"],
  ["protocol.allow", "never"],
  ["protocol.https.allow", "always"],
  ["protocol.ssh.allow", "always"],
  ["protocol.file.allow", "never"],
  ["submodule.recurse", "false"],
  ["fetch.recurseSubmodules", "false"],
];

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/** `-F none`: no configuration of ssh's either, and so no ProxyCommand; no agent, no password, only the pinned keys. */
function sshCommand(key: string, knownHosts: string): string {
  const options = {
    BatchMode: "yes",
    CheckHostIP: "no",
    ClearAllForwardings: "yes",
    ConnectTimeout: "15",
    GlobalKnownHostsFile: "none",
    IdentitiesOnly: "yes",
    IdentityAgent: "none",
    LogLevel: "ERROR",
    PreferredAuthentications: "publickey",
    ServerAliveCountMax: "3",
    ServerAliveInterval: "15",
    StrictHostKeyChecking: "yes",
    UpdateHostKeys: "no",
    // Within the quotes of the shell ssh wants its own, or a blank in a path would make two files of it.
    UserKnownHostsFile: `"${knownHosts}"`,
  };
  const words = Object.entries(options).flatMap(([name, value]) => ["-o", quoted(`${name}=${value}`)]);
  return ["ssh", "-F", "none", "-i", quoted(key), ...words].join(" ");
}

export function environment({ settings, deployKey, path, authorities }: Builder): Readonly<Record<string, string>> {
  const ssh = overSsh(settings.repository) && deployKey !== undefined && settings.knownHosts !== undefined;
  const pairs = configuration.flatMap(([key, value], i) => [
    [`GIT_CONFIG_KEY_${i}`, key],
    [`GIT_CONFIG_VALUE_${i}`, value],
  ]);
  return {
    PATH: path,
    // No ~/.netrc, no ~/.config/git.
    HOME: "/nonexistent",
    // What git says is read here, so it has to be in one language.
    LC_ALL: "C",
    GIT_ALLOW_PROTOCOL: "https:ssh",
    GIT_ASKPASS: "/bin/false",
    GIT_ATTR_NOSYSTEM: "1",
    // A broken clone must not be taken for a part of a repository above it.
    GIT_CEILING_DIRECTORIES: `${settings.site}/work`,
    GIT_COMMITTER_EMAIL: "builder@localhost",
    GIT_COMMITTER_NAME: "pushgate",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_COUNT: String(configuration.length),
    ...Object.fromEntries(pairs),
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_SSH_COMMAND: ssh ? sshCommand(deployKey, settings.knownHosts) : "false",
    GIT_SSH_VARIANT: "ssh",
    GIT_TERMINAL_PROMPT: "0",
    ...(authorities !== undefined && { GIT_SSL_CAINFO: authorities }),
  };
}

export type Git = (
  args: readonly string[],
  terms?: { readonly cwd?: string; readonly seconds?: number },
) => Promise<Ended>;

/** git in the clone, unless told another folder. */
export function armoured(builder: Builder): Git {
  const env = environment(builder);
  const clone = `${builder.settings.site}/work/clone`;
  const most = builder.settings.limits.seconds;
  return (args, { cwd = clone, seconds = most } = {}) => runChild("git", args, { cwd, env, seconds });
}
