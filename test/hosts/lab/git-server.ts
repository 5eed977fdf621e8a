/**
 * A git host on the internet, as a throwaway host sees it: one public address of each family, a name that only DNS
 * knows, https with a certificate that the host trusts, and ssh with a read-only deploy key. Both serve the same
 * repositories.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type GitHost, startGitHost } from "../../fakes/git-host.ts";
import type { Host } from "./host.ts";
import { actors } from "./net.ts";
import { answers, run, until } from "./process.ts";
import { type Resolver, startResolver } from "./resolver.ts";

export const gitServerName = "git.example.net";

export type GitServer = Awaited<ReturnType<typeof startGitServer>>;

/**
 * Starts the first of the lab's git servers that does not run yet. `from`: the folder of another, whose keys, certificate
 * and repositories it gets.
 */
export async function startGitServer(from?: string) {
  for (const [index, v4] of actors.gitServers.v4.entries()) {
    const addresses = [v4, actors.gitServers.v6[index]!];
    try {
      // The resolver's address is also the lock on this git server's other addresses.
      const resolver = await startResolver(actors.resolvers.v4[index]!);
      resolver.names.set(gitServerName, addresses);
      const https = await startGitHost({ name: gitServerName, addresses, port: 443, from });
      return { ...https, ...(await withSsh(https, addresses, resolver)) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
  throw new Error("all git servers of the lab are running: close one, or give lab/net.ts more addresses");
}

/** The forced command of a read-only deploy key: it runs git-upload-pack and rejects every other command. */
const readOnly = (folder: string) => `#!/bin/sh
path=\${SSH_ORIGINAL_COMMAND#"git-upload-pack '/"}
case $SSH_ORIGINAL_COMMAND in
  *..*) echo 'no such repository' >&2; exit 1 ;;
  "git-upload-pack '/"*"'") exec git -c safe.directory='*' upload-pack ${folder}/"\${path%"'"}" ;;
esac
echo 'this key may only read' >&2
exit 1
`;

async function withSsh(https: GitHost, addresses: readonly string[], resolver: Resolver) {
  const at = (name: string) => join(https.folder, name);
  for (const name of ["host", "deploy"].filter((name) => !existsSync(at(`key-${name}`))))
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", at(`key-${name}`)]);
  writeFileSync(at("read-only"), readOnly(https.folder));
  chmodSync(at("read-only"), 0o755);
  chmodSync(https.folder, 0o755);
  // sshd needs this folder for processes before authentication; the lab's /run is empty.
  mkdirSync("/run/sshd", { recursive: true });
  const allow = `restrict,command="${at("read-only")}" ${readFileSync(at("key-deploy.pub"), "utf8")}`;
  writeFileSync(at("authorized_keys"), allow);
  const config = `${addresses.map((one) => `ListenAddress ${one}\n`).join("")}HostKey ${at("key-host")}
AuthorizedKeysFile ${at("authorized_keys")}
AuthenticationMethods publickey
AcceptEnv GIT_PROTOCOL
StrictModes no
UsePAM no
PidFile none
`;
  writeFileSync(at("sshd_config"), config);
  const daemon = spawn("/usr/sbin/sshd", ["-D", "-e", "-f", at("sshd_config")], { stdio: "ignore" });
  const ended = once(daemon, "exit");
  await until("the git server's sshd answers", () => answers(addresses[0]!, 22, 2_000));

  const ssh = {
    url: (repository: string) => `ssh://git@${gitServerName}/${repository}.git`,
    /** The private key, for the host; the server grants its public key read access. */
    deployKey: readFileSync(at("key-deploy"), "utf8"),
    /** The server's line for known_hosts. */
    knownHosts: `${gitServerName} ${readFileSync(at("key-host.pub"), "utf8").split(" ").slice(0, 2).join(" ")}`,
  };
  const named = `nameserver ${resolver.address}\n`;
  /** Writes this server's resolver below the root folder of a host that trusts its authority, and has not booted. */
  const introduceAgain = (root: string) => writeFileSync(join(root, "etc/resolv.conf"), named);
  /** Makes a host use this server's resolver and trust its certificate authority. */
  const introduce = async (host: Host): Promise<void> => {
    await host.writeFile("/etc/resolv.conf", named);
    const ca = "/usr/local/share/ca-certificates/git-server.crt";
    await host.writeFile(ca, https.ca);
    // What update-ca-certificates does with it, in three processes in place of 150.
    await host.inside(`set -e; cd /etc/ssl/certs
hash=$(openssl x509 -noout -hash -in ${ca})
cat ${ca} >>ca-certificates.crt
ln -sf ${ca} "$hash.0"`);
  };
  const close = async () => {
    daemon.kill("SIGTERM");
    await ended;
    await https.close();
    // The lock on the others goes last.
    resolver.close();
  };
  return { addresses, resolver, ssh, introduce, introduceAgain, close };
}
