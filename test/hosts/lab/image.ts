/**
 * The file trees that throwaway hosts boot from. debootstrap makes them once, outside the repository; they are
 * read-only afterwards. A tree appears under its final name only when it is complete. `node test/hosts/lab/image.ts`
 * makes those that are missing.
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
import { debianMirror } from "./mirror.ts";
import { run, step } from "./process.ts";

export const releases = ["bookworm", "trixie"] as const;
export type Release = (typeof releases)[number];
/** bare: a minimal installation. packages: with curl and the packages that the program's packages layer installs. */
export type Variant = "bare" | "packages";

/** Packages that a minimal installation needs for ordinary SSH sessions; perl-base is part of every Debian. */
const base = "ca-certificates dbus iproute2 libpam-systemd openssh-server procps sudo systemd systemd-sysv".split(" ");
const installed = ["ca-certificates", "curl", "git", "git-lfs", "hugo", "nftables", "nginx", "nodejs", "openssl"];
/** Packages that `apt-get install` finds on a host; their dependencies are there too. */
const offered = [...installed, "exim4-daemon-light", "nullmailer", "postfix", "prometheus", "rsync"];

const script = new URL("image.sh", import.meta.url).pathname;
export const cache = () => join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pushgate", "host");

const key = (release: Release) => {
  const recipe = JSON.stringify([base, installed, offered, readFileSync(script, "utf8")]);
  return `${release}-${createHash("sha256").update(recipe).digest("hex").slice(0, 12)}`;
};

/** The folder of a tree; it exists after `buildImages`. */
export const imagePath = (release: Release, variant: Variant) => join(cache(), key(release), variant);

/** Makes missing trees. Needs root, debootstrap and a Debian mirror; takes one to two minutes per missing release. */
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
  // Trees of other recipes that no checkout has used for two weeks, and what interrupted runs left.
  const unused = Date.now() - 14 * 24 * 3600 * 1000;
  for (const path of readdirSync(cache()).map((name) => join(cache(), name)))
    if (statSync(path).mtimeMs < unused) rmSync(path, { recursive: true, force: true });
  const mirror = await debianMirror();
  await made(dirname(imagePath(release, "bare")), async (work) => {
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
    return work;
  });
}

/** Makes a folder of the cache, which appears under its name only when it is complete. `make` returns its folder in `work`. */
export async function made(path: string, make: (work: string) => Promise<string>): Promise<void> {
  const work = mkdtempSync(join(cache(), ".making-"));
  try {
    renameSync(await make(work), path);
  } catch (error) {
    // Another run may have made the same folder at the same time; then this run uses that one.
    if (!existsSync(path)) throw error;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename) await buildImages(releases);
