/**
 * Finds a mirror of Debian packages in this computer's apt configuration; no address is written here.
 * PUSHGATE_DEBIAN_MIRROR overrides it, for a computer with another distribution.
 */
import { run } from "./process.ts";

/** Throws if no Debian mirror is configured. */
export async function debianMirror(): Promise<{ url: string; env: NodeJS.ProcessEnv }> {
  const { stdout } = await run("apt-config", ["dump", "--format", "%f %v%n", "Acquire::http::Proxy"]);
  const proxy = stdout.split(" ")[1]?.trim();
  const env = proxy ? { http_proxy: proxy } : {};
  const chosen = process.env.PUSHGATE_DEBIAN_MIRROR;
  if (chosen) return { url: chosen, env };

  const { stdout: targets } = await run("apt-get", [
    "indextargets",
    "--format",
    "$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)",
    "Created-By: Packages",
  ]);
  const rows = targets.split("\n").map((line) => line.split("|"));
  // apt knows the origin only after `apt-get update`; before that a Debian code name identifies the mirror.
  const debian = rows.find(
    ([origin, release, component, url]) =>
      component === "main" &&
      /^https?:/.test(url ?? "") &&
      (origin === "Debian" || /^(bookworm|trixie|forky|sid|stable|testing)$/.test(release ?? "")) &&
      !/security|updates|backports/.test(release ?? ""),
  );
  if (debian?.[3] === undefined) {
    throw new Error(
      "this computer's apt sources (apt-get indextargets) have no Debian mirror. Set PUSHGATE_DEBIAN_MIRROR to the URL of one.",
    );
  }
  return { url: debian[3], env };
}
