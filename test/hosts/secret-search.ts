/** Searches for the text of a secret: in a host's files, processes, units and journal, and in what programs are given. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Host } from "./lab/host.ts";

/** Records a program's arguments and environment in a file, then runs it. */
const recorder = (program: string, given: string) => `#!/bin/sh
{ tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>'${given}'
exec /usr/bin/${program} "$@"
`;

/** A recorder of the operator's ssh. Pass `folder` as WorldOptions.path. */
export function recordedSsh(): { readonly folder: string; readonly given: () => string } {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-ssh-"));
  const given = join(folder, "given");
  writeFileSync(join(folder, "ssh"), recorder("ssh", given), { mode: 0o755 });
  return { folder, given: () => readFileSync(given, "utf8") };
}

/** Call this before the first `up`: every secret passes through systemd-creds, and each call of it is recorded. */
export async function secretSearch(host: Host) {
  const given = "/root/given-to-systemd-creds";
  await host.writeFile("/usr/local/bin/systemd-creds", recorder("systemd-creds", given), "0755");
  const places = "/etc /var /run /tmp /root /home /opt /srv /dev/shm /usr/local";
  const search = `grep -rlaF -f - --exclude-dir=proc --exclude-dir=sys --exclude-dir=journal ${places}`;
  return {
    /** Paths of files that contain one of the texts. Skips the journal, and all of /usr except /usr/local. */
    async holders(texts: readonly string[]) {
      const found = await host.inside(search, { stdin: `${texts.join("\n")}\n`, check: false });
      return found.stdout.split("\n").filter(Boolean).sort();
    },
    /** Command lines and environments of all processes that run on the host now. */
    processes: () => host.read("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),
    units: () => host.read("systemctl cat 'pushgate*'; systemctl show 'pushgate*'"),
    journal: () => host.read("journalctl --no-pager --output=export --all"),
    givenToCreds: () => host.readFile(given),
  };
}

/**
 * Checks every 20 ms, from the lab, whether a process has one of these texts in its command line or, on a host, in its
 * environment. The returned function ends the watch and returns the findings. The lab sees the processes of its hosts,
 * because it contains their process namespaces.
 */
export function watchProcesses(texts: Readonly<Record<string, string>>): () => string[] {
  const caught = new Set<string>();
  const look = (pid: string): void => {
    // Pulumi's engine passes the configuration to the program by environment, but in the lab, not on a host.
    const spaces = /^NSpid:(.*)$/m
      .exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!
      .trim()
      .split(/\s+/);
    const environment = spaces.length > 1 ? readFileSync(`/proc/${pid}/environ`, "utf8") : "";
    const given = readFileSync(`/proc/${pid}/cmdline`, "utf8") + environment;
    for (const [name, text] of Object.entries(texts))
      if (given.includes(text)) caught.add(`${name} in ${given.slice(0, 80)}`);
  };
  const lookAtAll = (): void => {
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        look(pid);
      } catch {
        // The process has ended since the listing.
      }
    }
  };
  const looking = setInterval(lookAtAll, 20);
  return () => {
    clearInterval(looking);
    lookAtAll();
    return [...caught];
  };
}
