/**
 * Every call of git. What the repository holds and what its host answers may change what is fetched, never what is run.
 * The rules are in the environment, because git passes it on to submodules.
 */
import type { Builder } from "../settings.ts";
import { type Ended, runChild } from "./child.ts";

const configuration = Object.entries({
  "core.hooksPath": "/dev/null",
  "core.fsmonitor": "false",
  "core.attributesFile": "/dev/null",
  "core.excludesFile": "/dev/null",
  // hugo would publish a link's target, such as /etc/passwd. git writes the link's text, and the builder removes it.
  "core.symlinks": "false",
  // A small fetch leaves loose objects; unsynced they are empty files after a power cut.
  "core.fsync": "committed,loose-object",
  "core.fsyncMethod": "batch",
  // A former head stays for 90 days, so that a rollback's commit and a diff's base survive a forced push.
  "core.logAllRefUpdates": "always",
  "gc.reflogExpireUnreachable": "90.days",
  // gc runs after a publish, in the foreground: in the background it would hold locks in the next run.
  "gc.autoDetach": "false",
  "maintenance.auto": "false",
  "credential.helper": "",
  "http.followRedirects": "initial",
  // Bytes a second, and seconds: a slow remote holds the build no longer than this.
  "http.lowSpeedLimit": "1000",
  "http.lowSpeedTime": "30",
  "fetch.recurseSubmodules": "false",
});

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/** `-F none`: no configuration of ssh, and so no ProxyCommand; no agent, no password, only the pinned keys. */
function sshCommand(key: string, knownHosts: string): string {
  const options = {
    BatchMode: "yes",
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
    // ssh reads quotes inside the shell's quotes: without them a blank in the path would make it two files.
    UserKnownHostsFile: `"${knownHosts}"`,
  };
  const words = Object.entries(options).flatMap(([name, value]) => ["-o", quoted(`${name}=${value}`)]);
  return ["ssh", "-F", "none", "-i", quoted(key), ...words].join(" ");
}

export function environment({ settings, deployKey, path, authorities }: Builder): Readonly<Record<string, string>> {
  const { knownHosts } = settings;
  const pairs = configuration.flatMap(([key, value], i) => [
    [`GIT_CONFIG_KEY_${i}`, key],
    [`GIT_CONFIG_VALUE_${i}`, value],
  ]);
  return {
    PATH: path,
    // No ~/.netrc, no ~/.config/git.
    HOME: "/nonexistent",
    // git-faults.ts reads git's messages.
    LC_ALL: "C",
    // It overrides every protocol.*.allow of a configuration.
    GIT_ALLOW_PROTOCOL: "https:ssh",
    GIT_ASKPASS: "/bin/false",
    GIT_ATTR_NOSYSTEM: "1",
    // git must not take a repository above a broken clone for the clone.
    GIT_CEILING_DIRECTORIES: `${settings.site}/work`,
    GIT_COMMITTER_EMAIL: "builder@localhost",
    GIT_COMMITTER_NAME: "pushgate",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_COUNT: String(configuration.length),
    ...Object.fromEntries(pairs),
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_SSH_COMMAND: deployKey && knownHosts ? sshCommand(deployKey, knownHosts) : "false",
    GIT_SSH_VARIANT: "ssh",
    GIT_TERMINAL_PROMPT: "0",
    ...(authorities !== undefined && { GIT_SSL_CAINFO: authorities }),
  };
}

export type Git = (args: readonly string[], cwd?: string) => Promise<Ended>;

/** git in the clone or another folder, with this page's environment and the site's time limit. */
export function armoured(builder: Builder): Git {
  const env = environment(builder);
  const { site, limits } = builder.settings;
  return (args, cwd = `${site}/work/clone`) => runChild("git", args, { cwd, env, seconds: limits.seconds });
}
