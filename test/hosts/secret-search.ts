/** Where on a machine a secret's text is, by searching: its files, what runs, its journal, and what systemd-creds was given. */
import { readdirSync, readFileSync } from "node:fs";
import type { Host } from "./lab/host.ts";

const given = "/root/given-to-systemd-creds";

/** systemd-creds is the one program that a secret passes through; this one writes down what it was given, and hands over. */
const spy = `#!/bin/sh
{ tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>${given}
exec /usr/bin/systemd-creds "$@"
`;

export type SecretSearch = {
  /** Paths of files that hold one of the texts. /usr is the distribution's, but for /usr/local; the journal is text. */
  readonly holders: (texts: readonly string[]) => Promise<string[]>;
  /** Command lines and environments of all that runs on the machine now. */
  readonly processes: () => Promise<string>;
  readonly units: () => Promise<string>;
  readonly journal: () => Promise<string>;
  /** Arguments and environments of systemd-creds since `secretSearch` was called. */
  readonly givenToCreds: () => Promise<string>;
};

/** Before the machine is brought up, so that what systemd-creds is given is seen. */
export async function secretSearch(host: Host): Promise<SecretSearch> {
  await host.writeFile("/usr/local/bin/systemd-creds", spy, "0755");
  const places = "/etc /var /run /tmp /root /home /opt /srv /dev/shm /usr/local";
  const search = `grep -rlaF -f - --exclude-dir=proc --exclude-dir=sys --exclude-dir=journal ${places}`;
  return {
    async holders(texts) {
      const found = await host.inside(search, { stdin: `${texts.join("\n")}\n`, check: false });
      return found.stdout.split("\n").filter(Boolean).sort();
    },
    processes: () => host.read("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),
    units: () => host.read("systemctl cat 'pushgate*'; systemctl show 'pushgate*'"),
    journal: () => host.read("journalctl --no-pager --output=export --all"),
    givenToCreds: () => host.readFile(given),
  };
}

/**
 * Looks every 20 ms, from outside, whether a process has one of these texts in its command line or, on a machine, in its
 * environment, until it is called; then says which and where. Lab and machines share the process tree, so a machine's
 * own processes are seen here as the kernel has them.
 */
export function watchProcesses(texts: Readonly<Record<string, string>>): () => string[] {
  const caught = new Set<string>();
  const look = (pid: string): void => {
    // The program itself gets its configuration by environment, which is the engine's way; it runs on this side only.
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
        // It has ended meanwhile.
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
