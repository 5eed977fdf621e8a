/** A registry of npm, as files of a web server: archives of real packages, which release-archives.ts has. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { releaseFolder } from "../hosts/lab/release-archives.ts";

type Lock = { readonly packages: Readonly<Record<string, { resolved?: string; integrity: string }>> };

/** Returns the files of a repository that name them. */
export function publishPackages(served: Map<string, Buffer>, id: string) {
  const folder = join(releaseFolder(id), "npm");
  const [manifest, lock] = ["package.json", "package-lock.json"].map((name) =>
    readFileSync(join(folder, name), "utf8"),
  );
  for (const { resolved, integrity } of Object.values((JSON.parse(lock!) as Lock).packages)) {
    if (resolved === undefined) continue;
    const digest = Buffer.from(integrity.slice(7), "base64").toString("hex");
    const archive = join(folder, "archives", digest.slice(0, 2), digest.slice(2, 4), digest.slice(4));
    // Not those of other platforms.
    if (existsSync(archive)) served.set(new URL(resolved).pathname, readFileSync(archive));
  }
  return { "package.json": manifest!, "package-lock.json": lock! };
}
