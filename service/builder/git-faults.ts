/** What git reports of a remote, in words for people. The tests provoke these errors with a real git. */
import type { Ended } from "./child.ts";
import { diskFull, printable } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

/** In this order: the first that matches is the nearest to the cause. Words in braces are replaced. */
const causes: readonly (readonly [RegExp, string])[] = [
  [/^spawn git ENOENT/, "git is not installed. Run apt-get install git."],
  [/No space left on device|Disk quota exceeded/, diskFull],
  [/couldn't find remote ref/, "the repository has no branch {branch}. Push it, or change hooks[].branch."],
  [
    /Host key verification failed|HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/,
    "the host key of {host} is not the pinned one. If its owner announced a new key, add that key to " +
      "hooks[].site.knownHosts; otherwise another host answers at its address.",
  ],
  [
    /Permission denied \(publickey|Permission to \S+ denied/,
    "{host} rejected the deploy key. Add its public half to the repository, read-only, or set " +
      "pushgate:secrets.<hook>.deployKey again.",
  ],
  [
    /error in libcrypto|invalid format|Load key/,
    "ssh can't read the deploy key. Set pushgate:secrets.<hook>.deployKey again, whole, without a passphrase.",
  ],
  [
    /could not read Username|Authentication failed|HTTP 40[13]|returned error: 40[13]/,
    "the git host requires a login for {repository}: it is private, or its name is wrong. Correct the name, or use an " +
      "ssh address with a deploy key.",
  ],
  [
    /[Rr]epository.*not found|not found: |returned error: 404|does not appear to be a git repository/,
    "{repository} is not there. Correct hooks[].repository, or allow the deploy key to read the repository.",
  ],
  [/Could not resolve host/, "the name {host} can't be resolved. Check /etc/resolv.conf."],
  [/SSL|certificate/, "the certificate of {host} is not trusted. Update ca-certificates, or renew the certificate."],
  [
    /Failed to connect|Could not connect|Couldn't connect|Connection (refused|timed out)|No route to host|Network is unreachable/,
    "{host} can't be reached. Check that it is up; if its address is private, add it to hooks[].site.egress.",
  ],
  [
    /Operation too slow|early EOF|hung up|unexpected disconnect|Connection (closed|reset)|RPC failed|returned error: 5\d\d|Empty reply|Operation timed out/,
    "{host} closed the connection during the fetch. The builder tries again.",
  ],
];

/** Why git failed, where the remote, the network or the disk is the cause; undefined where the clone may be broken. */
export function remoteFault({ stderr, late }: Ended, { repository, branch, limits }: BuilderSettings) {
  const host = /^(?:\w+:\/\/)?(?:[^@/]*@)?([^:/]+)/.exec(repository)?.[1] ?? repository;
  if (late) return `the fetch from ${host} took longer than ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
  const words: Readonly<Record<string, string>> = { host, repository, branch };
  const cause = causes.find(([pattern]) => pattern.test(stderr))?.[1];
  return cause && `${cause.replace(/\{(\w+)\}/g, (_, word: string) => words[word]!)} (git: ${lastLine(stderr)})`;
}

export function lastLine(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => /^(fatal|error|remote|ssh|\S+@)/.test(line));
  const fatal = lines.find((line) => line.startsWith("fatal"));
  return printable(fatal ?? lines.at(-1) ?? stderr.trim().split("\n").at(-1) ?? "", 200);
}
