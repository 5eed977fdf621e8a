/**
 * The file trees a throwaway host boots from: made once by debootstrap, kept outside the repository, never written
 * to afterwards. A tree appears under its final name complete or not at all.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { isAlive, self } from "./alive.ts";
import { debianMirror } from "./mirror.ts";
import { run, step } from "./process.ts";

export const releases = ["bookworm", "trixie"] as const;
export type Release = (typeof releases)[number];
/** bare: what a minimal installation has. packages: with what the program's packages layer installs, and curl. */
export type Variant = "bare" | "packages";

/** What makes a minimal installation reachable and its ssh sessions ordinary; perl-base comes with every Debian. */
const base = [
  "ca-certificates",
  "dbus",
  "iproute2",
  "libpam-systemd",
  "openssh-server",
  "procps",
  "sudo",
  "systemd",
  "systemd-sysv",
];
const installed = ["ca-certificates", "curl", "git", "hugo", "nftables", "nginx", "nodejs", "openssl"];
/** What `apt-get install` finds on a host, dependencies included. */
const offered = [...installed, "rsync"];

const script = new URL("image.sh", import.meta.url).pathname;
export const cache = () => join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pushgate", "host");

const key = (release: Release) => {
  const recipe = JSON.stringify([base, installed, offered, readFileSync(script, "utf8")]);
  return `${release}-${createHash("sha256").update(recipe).digest("hex").slice(0, 12)}`;
};

/** The tree's folder; it exists once `buildImages` has run. */
export const imagePath = (release: Release, variant: Variant) => join(cache(), key(release), variant);

/** Makes what is missing. Needs root, debootstrap and the mirror; one to two minutes a release, nothing when it is there. */
export async function buildImages(wanted: readonly Release[]): Promise<void> {
  for (const release of wanted) {
    if (!existsSync(imagePath(release, "packages"))) {
      await step(`make the ${release} image (once; kept in ${cache()})`, () => build(release));
    }
    utimesSync(dirname(imagePath(release, "packages")), new Date(), new Date());
  }
}

async function build(release: Release): Promise<void> {
  mkdirSync(cache(), { recursive: true });
  removeStale();
  const work = mkdtempSync(join(cache(), `.making-${self()}-`));
  const mirror = await debianMirror();
  try {
    const env = {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      RELEASE: release,
      MIRROR: mirror.url,
      WORK: work,
      BASE: base.join(","),
      OFFERED: offered.join(" "),
      INSTALLED: installed.join(" "),
      ...mirror.env,
    };
    const args = ["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    const onLine = (line: string) => console.error(`lab:   ${release}: ${line.replace("stage: ", "")} …`);
    await run("setpriv", [...args, "sh", script], { env, timeout: 600_000, onLine });
    renameSync(work, dirname(imagePath(release, "bare")));
  } catch (error) {
    // Two runs may have made it at once; then the other one's is as good.
    if (!existsSync(imagePath(release, "packages"))) throw error;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What interrupted runs left, and trees of other recipes that no checkout has used for two weeks. */
function removeStale(): void {
  const unused = Date.now() - 14 * 24 * 3600 * 1000;
  for (const name of readdirSync(cache())) {
    const path = join(cache(), name);
    const maker = /^\.making-(\d+-\d+)-/.exec(name)?.[1];
    const stale = maker === undefined ? statSync(path).mtimeMs < unused : !isAlive(maker);
    if (stale) rmSync(path, { recursive: true, force: true });
  }
}
