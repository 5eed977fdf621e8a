/**
 * A host whose owner has configured git and ssh for other programs. `git` runs in a mount namespace with an /etc, a home
 * and templates of its own and 64 processors, as root there and without rights outside.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const isolated = ["--user", "--map-root-user", "--mount", "--uts"];

/** Why it cannot be made here; undefined if it can. */
export const noHostileHost =
  spawnSync("unshare", [...isolated, "true"]).status === 0 ? undefined : "namespaces are not allowed here: run as root";

export type HostileHost = ReturnType<typeof hostileHost>;

export function hostileHost(folder: string) {
  const at = (path: string) => join(folder, "hostile", path);
  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), text, { mode });
  };
  for (const name of ["etc", "home", "templates", "programs", "marks", "bin"]) mkdirSync(at(name), { recursive: true });
  // What programs read in order to start, and to find localhost.
  for (const name of ["group", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "resolv.conf"])
    if (existsSync(`/etc/${name}`)) copyFileSync(`/etc/${name}`, at(`etc/${name}`));
  write("etc/passwd", `root:x:0:0::${at("home")}:/bin/sh\n`);
  write("etc/hosts", `${readFileSync("/etc/hosts", "utf8")}\n127.0.1.1 looked-up.example.net webhost\n`);
  write("cpus", "0-63\n");
  const mounts = `mount --bind ${at("etc")} /etc
mount --bind ${at("templates")} /usr/share/git-core/templates
mount --bind ${at("cpus")} /sys/devices/system/cpu/online
echo webhost >/proc/sys/kernel/hostname
exec git "$@"`;
  write(
    "bin/git",
    `#!/bin/sh\nPATH=\${PATH#*:}\nexec unshare ${isolated.join(" ")} sh -ec '${mounts}' git "$@"\n`,
    0o755,
  );
  return {
    /** For the builder. `programs` are found before the host's own. */
    path: `${at("bin")}:${at("programs")}:${process.env.PATH}`,
    home: at("home"),
    at,
    write,
    /** Shell that leaves a mark of this name. */
    mark: (name: string) => `touch ${at("marks")}/${name}`,
    /** Those left since the last call. */
    marks() {
      const names = readdirSync(at("marks")).sort();
      for (const name of names) rmSync(at(`marks/${name}`));
      return names;
    },
  };
}
