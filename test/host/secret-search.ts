/** Where on a machine a secret's text is, by searching: its files, what runs, its journal, and what systemd-creds was given. */
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
