/** Texts that OpenSSH and git read: their parts, and what is wrong with one, in words that follow its key. */
import { isIPv6 } from "node:net";
import { found } from "./faults.ts";

const uri = /^ssh:\/\/(.+@)?(?:\[(.+)\]|([^:@[\]]+))(?::(\d+))?$/;
const destination = /^(.+@)?()(.+)$/;

/** The parts of a host's `ssh`. OpenSSH itself reads ssh:// with no IPv6 address (9.2), so it gets the parts. */
export function sshTarget(ssh: string) {
  const [, user = "", address = "", name = "", port] = uri.exec(ssh) ?? destination.exec(ssh) ?? [];
  return { ...{ user, port }, host: address || name, isBracketed: address !== "" };
}

function isTarget(ssh: string): boolean {
  const { user, host, port = "22", isBracketed } = sshTarget(ssh);
  // A leading hyphen would be read by ssh as an option, ProxyCommand among them.
  const isHost = isIPv6(host) || (!isBracketed && /^(?!-)[A-Za-z0-9._-]+$/.test(host));
  return isHost && Number(port) >= 1 && Number(port) <= 65_535 && /^(?!-)[A-Za-z0-9._@-]*$/.test(user);
}

export function sshFault(text: string): string | undefined {
  if (isTarget(text)) return undefined;
  const meant = `ssh://${text}`;
  return uri.test(meant) && isTarget(meant)
    ? `${found(text)}, and ssh takes the port or the brackets for a part of the name. Use ${meant}.`
    : found(text);
}

/** The rules of git check-ref-format --branch. */
export function branchFault(branch: string): string | undefined {
  const wrong = /[\u0000- ~^:?*[\\\u007f]|\.\.|@\{|\/\/|\/\.|^[-/.]|\.lock(?=\/|$)|[/.]$|^HEAD$/.exec(branch);
  if (wrong === null) return branch === "" ? found(branch) : undefined;
  return `${found(branch)}, and git accepts no ${JSON.stringify(wrong[0])} there (character ${wrong.index + 1})`;
}

const [site, path] = ["[A-Za-z0-9.-]+", "[\\w./~+%-]+"];
const address = new RegExp(
  `^(https://${site}(:\\d+)?/${path}|ssh://[\\w.-]+@${site}(:\\d+)?/${path}|[\\w.-]+@${site}:${path})$`,
);

/** Rendered files are public: a name in an https address may be a token, and Bitbucket's address has the user's. */
export function repositoryFault(text: string): string | undefined {
  if (address.test(text)) return undefined;
  const meant = text.replace(/^(https:\/\/)[^/]*@/, "$1").replace(/^(ssh:\/\/[^/:@]*):[^/]*@/, "$1@");
  if (meant !== text && address.test(meant))
    return `${found(text)}, with a name or a password. Use ${meant}; a private repository is read over SSH, with a deploy key.`;
  const [refused] = /[^\w./~+%:@-]/.exec(text) ?? [];
  return `${found(text)}${refused === undefined ? "" : `, and an address has no ${JSON.stringify(refused)} here`}`;
}
