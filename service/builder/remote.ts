/** What git says of a remote, in words for people. Tested against what git really says, in test/service/builder. */
import type { Ended } from "./child.ts";
import { diskFull, printable } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

type Says = (settings: BuilderSettings, host: string) => string;

/** In this order: the first that matches is the nearest to the cause. */
const causes: readonly (readonly [RegExp, Says])[] = [
  [/No space left on device|Disk quota exceeded/, () => diskFull],
  [
    /couldn't find remote ref/,
    ({ branch }) => `the repository has no branch ${branch}: push it, or change hooks[].branch`,
  ],
  [
    /Host key verification failed|HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/,
    (_, host) =>
      `the host key of ${host} is not the pinned one: if its owner announced a new key, put it into ` +
      "hooks[].site.knownHosts; otherwise somebody answers in its place",
  ],
  [
    /Permission denied \(publickey|Permission to \S+ denied/,
    (_, host) =>
      `${host} refused the deploy key: add its public half to the repository, read-only, or set ` +
      "pushgate:secrets.<hook>.deployKey again",
  ],
  [
    /error in libcrypto|invalid format|Load key/,
    () => "ssh can't read the deploy key: set pushgate:secrets.<hook>.deployKey again, whole, without a passphrase",
  ],
  [
    /could not read Username|Authentication failed|HTTP 40[13]|returned error: 40[13]/,
    ({ repository }) =>
      `the remote asks for a login for ${repository}: it is private, or its name is wrong; private ones are read over ` +
      "ssh with a deploy key",
  ],
  [
    /[Rr]epository.*not found|not found: |returned error: 404|does not appear to be a git repository/,
    ({ repository }) => `${repository} is not there: it was moved or removed, or the deploy key may not read it`,
  ],
  [
    /Could not resolve host/,
    (_, host) => `the name ${host} can't be resolved: look at the machine's resolver, /etc/resolv.conf`,
  ],
  [
    /SSL|certificate/,
    (_, host) => `the certificate of ${host} is not trusted: it has expired, or ca-certificates is old`,
  ],
  [
    /Failed to connect|Could not connect|Couldn't connect|Connection (refused|timed out)|No route to host|Network is unreachable/,
    (_, host) =>
      `${host} can't be reached: it is down, or it has a private address that hooks[].site.egress does not name`,
  ],
  [
    /Operation too slow|early EOF|hung up|unexpected disconnect|Connection (closed|reset)|RPC failed|returned error: 5\d\d|Empty reply|Operation timed out/,
    (_, host) => `${host} broke off in the middle of the fetch`,
  ],
];

export function hostOf(repository: string): string {
  return /^(?:\w+:\/\/)?(?:[^@/]*@)?([^:/]+)/.exec(repository)?.[1] ?? repository;
}

/** Why a fetch failed where it is the remote's, the network's or the disk's doing; undefined where the clone may be broken. */
export function remoteFault({ stderr, late, missing }: Ended, settings: BuilderSettings): string | undefined {
  if (missing) return "git is not installed: apt-get install git";
  const host = hostOf(settings.repository);
  if (late)
    return `the fetch from ${host} took longer than ${settings.limits.seconds} s: raise limits.seconds, or look at the line`;
  const cause = causes.find(([pattern]) => pattern.test(stderr));
  return cause && `${cause[1](settings, host)} (git: ${lastLine(stderr)})`;
}

export const lastLine = (stderr: string): string => {
  const lines = stderr.split("\n").filter((line) => /^(fatal|error|remote|ssh|\S+@)/.test(line));
  return printable(
    lines.find((line) => line.startsWith("fatal")) ?? lines.at(-1) ?? stderr.trim().split("\n").at(-1) ?? "",
    200,
  );
};
