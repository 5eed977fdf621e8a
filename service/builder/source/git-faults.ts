/** Why git failed. The tests provoke these errors with a real git. */
import { repositoryOf } from "../../git-hosts/repository.ts";
import { printable } from "../../printable.ts";
import type { Ended } from "../child.ts";
import { diskFull } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";

/** git-lfs names a file, and why it is not there. */
const lfs = /^Error downloading object: (.+) \(\w+\): Smudge error: (?:.+ \([0-9a-f]{64}\): )?(?:\[\w+\] )?(.+)$/m;

/** The first row that matches counts: rows nearer to the cause come first. Words in braces are replaced. */
const causes: Readonly<Record<string, RegExp>> = {
  "git is not installed. Run apt-get install git.": /^spawn git ENOENT/,
  [diskFull]: /No space left on device|Disk quota exceeded/,
  "git-lfs is not installed. Run apt-get install git-lfs.": /git-lfs: (not found|No such file)/,
  "Git LFS does not bring {file}: {why}. Push it with git lfs push --all, or correct .lfsconfig.":
    /(smudge|clean) filter '?lfs'? failed/,
  "the repository has no branch {branch}. Push it, or change hooks[].branch.": /couldn't find remote ref/,
  "the host key of {host} is not the pinned one. If its owner announced a new key, add that key to hooks[].site.knownHosts; otherwise another host answers at its address.":
    /Host key verification failed|HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/,
  "{host} rejected the deploy key. Add its public half to the repository, read-only, or set pushgate:secrets.<hook>.deployKey again, whole, without a passphrase.":
    /Permission denied \(publickey|Permission to \S+ denied/,
  "{host} requires a login for {repository}: it is private, or its name is wrong. Correct {where}, or use an SSH address with a deploy key.":
    /could not read Username|Authentication failed|HTTP 40[13]|returned error: 40[13]/,
  "{repository} is not there. Correct {where}, or allow the deploy key to read it.":
    /[Rr]epository.*not found|not found: |returned error: 404|does not appear to be a git repository/,
  "the name {host} cannot be resolved. Check /etc/resolv.conf.": /Could not resolve host/,
  "the certificate of {host} is not trusted. Update ca-certificates, or renew the certificate.": /SSL|certificate/,
  "{host} cannot be reached. Check that it is up, and not this host; if its address is private, add it to hooks[].site.egress.":
    /Failed to connect|Could not connect|Couldn't connect|Connection (refused|timed out)|No route to host|Network is unreachable/,
  "{host} closed the connection during the fetch. The builder tries again.":
    /Operation too slow|early EOF|hung up|unexpected disconnect|Connection (closed|reset)|RPC failed|returned error: 5\d\d|Empty reply|Operation timed out/,
  // git gives a full disk as the reason of some failed writes only.
  "git cannot write its files. Free space, or look in dmesg for a fault of the disk.": /unable to write /,
};

/** Rows for a submodule, whose address is the repository's own choice; they come before the others. */
const causesOfSubmodule: typeof causes = {
  "{repository} is neither https nor SSH. Use its https:// address in .gitmodules.": /transport '\S+' not allowed/,
  "{repository} is read over SSH, with the deploy key and the known hosts of the site. Use its https:// address in .gitmodules.":
    /Could not read from remote repository|Host key verification failed|Permission denied \(publickey|ssh variant/,
  "{repository} is private, or its name is wrong. Correct its address in .gitmodules; or allow the site's deploy key to read it, over SSH, and add its host to hooks[].site.knownHosts.":
    /could not read Username/,
  "{repository} is a repository cloned into this one, and .gitmodules has no address for it. Run git rm --cached on it, then git submodule add with its address.":
    /No url found for submodule path/,
  "{repository} lacks the commit that this repository records. Push that commit to it, or record another.":
    /not our ref|but it did not contain /,
};

/** Why git failed, where the remote, the network or the disk is the cause; undefined where the clone may be broken. */
export const remoteFault = (ended: Ended, settings: BuilderSettings) =>
  faultOf(causes, ended, settings, "hooks[].repository");

export function submoduleFault(ended: Ended, settings: BuilderSettings): string {
  const [, address] = /clone of '([^']+)' into submodule path/.exec(ended.stderr) ?? [];
  const [, path = "", url = ""] = /submodule path '([^']+)'|submodule '[^']+' \(([^)]+)\)/.exec(ended.stderr) ?? [];
  const repository = printable(address ?? (url || path || "a submodule"), 200);
  const rows = { ...causesOfSubmodule, ...causes };
  const fault = faultOf(rows, ended, { ...settings, repository }, "its address in .gitmodules");
  const what = fault ?? `git says: ${lastLine(ended.stderr)}. Correct .gitmodules.`;
  return `a submodule: ${what} Without submodules: hooks[].site.submodules: false.`;
}

function faultOf(rows: typeof causes, { stderr, late }: Ended, settings: BuilderSettings, where: string) {
  const { repository, branch, limits } = settings;
  const host = repositoryOf(repository).host || repository;
  if (late) return `the fetch from ${host} took longer than ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
  const [, ...found] = lfs.exec(stderr) ?? [];
  const [file = "a file", why = "it says nothing"] = found.map((word) => printable(word, 200));
  const words: Readonly<Record<string, string>> = { host, repository, branch, where, file, why };
  const cause = Object.entries(rows).find(([, pattern]) => pattern.test(stderr))?.[0];
  return cause && `${cause.replace(/\{(\w+)\}/g, (_, word: string) => words[word]!)} (git: ${lastLine(stderr)})`;
}

/** A lack of memory in git's words, also of a program that git started: `died of signal 9`. */
const noMemory = /out of memory|cannot allocate memory|unable to create (load_\w+ )?thread|died of signal (9|11)\b/i;

export function memoryFault({ stderr, signal, cut, late }: Ended) {
  if (cut || late || !(signal || noMemory.test(stderr))) return undefined;
  return `git reached the builder's memory limit, or the host has no memory left. Make the commit smaller, or raise hooks[].site.limits.memoryMiB, which below 512 limits the generator alone. (git: ${signal ? `ended by ${signal}` : lastLine(stderr)})`;
}

export function lastLine(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => /^(fatal|error|remote|ssh|\S+@)/.test(line));
  const fatal = lines.find((line) => line.startsWith("fatal"));
  return printable(fatal ?? lines.at(-1) ?? stderr.trim().split("\n").at(-1) ?? "", 200);
}
