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

/** What a site needs as what its modules need, which `hugo mod npm pack` writes into a workspace of npm. */
export function inWorkspace(files: ReturnType<typeof publishPackages>) {
  const { devDependencies, ...site } = JSON.parse(files["package.json"]) as { devDependencies: object };
  const lock = JSON.parse(files["package-lock.json"]) as Lock;
  const folder = "packages/hugoautogen";
  const [own, module] = [
    { ...site, workspaces: [folder] },
    { name: "hugoautogen", version: "0.1.0", dependencies: devDependencies },
  ];
  const link = { "node_modules/hugoautogen": { resolved: folder, link: true }, [folder]: module };
  return {
    "package.json": JSON.stringify(own),
    "package-lock.json": JSON.stringify({ ...lock, packages: { ...lock.packages, "": own, ...link } }),
    [`${folder}/package.json`]: JSON.stringify(module),
  };
}
