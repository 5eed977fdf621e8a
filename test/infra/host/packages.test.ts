/** The packages layer with fakes of apt and dpkg, below a folder that serves as the root of a host. */
import { existsSync, readFileSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { quote } from "../../../infra/apply/shell.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { packagesLayer, packagesOf } from "../../../infra/host/packages/packages.ts";
import { example, release, served, serving } from "../../fixtures.ts";
import { inNamespace, needs, type Ran, Root } from "./namespace.ts";

needs("unshare");

const layer = packagesLayer(example);
const all = ["iproute2", "nftables", "nginx", "nodejs", "openssl"];
let root: Root;
beforeEach(() => {
  root = new Root();
});
const shim = "/usr/sbin/policy-rc.d";
const disabled = "systemctl --quiet disable --no-reload --now nginx.service";

/** Runs one apply. `apt`: the shell that the fake apt-get runs for `install`, after it has noted the call. */
function apply(before: readonly string[], apt = "true"): Ran {
  root.write("installed", before.map((name) => `${name}\n`).join(""));
  const program = (name: string, text: string) => root.write(`bin/${name}`, `#!/bin/sh\n${text}\n`, 0o755);
  program("dpkg-query", `for name; do ! grep -qx -- "$name" ${root.at("installed")} || echo "installed $name"; done`);
  program(
    "apt-get",
    `echo "$*" >>${root.at("calls")}
case " $* " in
  *' install '*)
    [ ! -x ${root.at(shim)} ] || { code=0; ${root.at(shim)} || code=$?; echo "services may start: $code" >>${root.at("calls")}; }
    ${apt} ;;
esac`,
  );
  program("systemctl", `echo "systemctl $*" >>${root.at("calls")}`);
  root.write("usr/sbin/kept", "");
  root.write("var/lib/pushgate/kept", "");
  return inNamespace(`sh -ec ${quote(root.moved(`${layer.script}\n${layer.activate}`, shim))}`, root.at("bin"));
}
const calls = () => readFileSync(root.at("calls"), "utf8");
const unpackNginx = () => `echo nginx >>${root.at("installed")}`;

test("on a bare host the install starts no service, removes no package, and Debian's nginx.service is disabled", () => {
  expect(apply([], unpackNginx()).status).toBe(0);
  expect(calls()).toMatch(
    /--no-install-recommends --no-remove -o DPkg::Lock::Timeout=300 .* install iproute2 nftables nginx nodejs openssl\n/,
  );
  expect(calls()).toContain("services may start: 101");
  expect(calls()).toContain(disabled);
  expect(existsSync(root.at(shim))).toBe(false);
});

test("an nginx and a policy-rc.d that were there before stay as they are", () => {
  root.write(shim, "#!/bin/sh\nexit 0\n", 0o755);
  apply(["nginx", "nodejs", "openssl", "iproute2"]);
  expect(calls()).toContain("install nftables\n");
  expect(calls()).not.toContain("disable");
  expect(readFileSync(root.at(shim), "utf8")).toBe("#!/bin/sh\nexit 0\n");
});

test("an install that fails leaves no policy-rc.d behind and prints the fix", () => {
  expect(apply([], "exit 100")).toMatchObject({ status: 1, stderr: expect.stringContaining("dpkg --configure -a") });
  expect(existsSync(root.at(shim))).toBe(false);
});

test("the next apply finishes an install that was killed halfway, without apt: the new nginx.service is disabled", () => {
  apply([], `${unpackNginx()}; kill -KILL $PPID`);
  const before = calls();
  expect([existsSync(root.at(shim)), before.includes(disabled)]).toEqual([true, false]);
  expect(apply(all)).toEqual({ status: 0, stdout: "", stderr: "" });
  expect([existsSync(root.at(shim)), calls()]).toEqual([false, `${before}${disabled}\n`]);
});

test("the packages are those that run there, sorted: also those of a site, of a Hugo of its own, and of SSH", () => {
  const more = (settings: Settings) => packagesOf(settings).filter((name) => !all.includes(name));
  const overSsh = served.hooks.map((hook) => ({ ...hook, repository: "git@github.com:example/site.git" }));
  expect(packagesOf(example)).toEqual(all);
  const own = serving(example, { tools: { hugo: release("0.152.2") } });
  expect(more(own)).toEqual(["ca-certificates", "curl", "git", "git-lfs"]);
  const ssh = { ...served, hooks: overSsh };
  expect(more(ssh)).toEqual(["ca-certificates", "git", "git-lfs", "hugo", "openssh-client"]);
});

test("the fact names the packages that are missing", () => {
  const fact = (...installed: readonly string[]) => {
    const rows = installed.map((name) => `echo "installed ${name}"\n`).join("");
    root.write("bin/dpkg-query", `#!/bin/sh\necho "config-files openssl"\n${rows}exit 1\n`, 0o755);
    return inNamespace(`${layer.script}\nstate`, root.at("bin")).stdout;
  };
  expect(fact(...all)).toBe("installed");
  expect(fact("iproute2", "nftables", "nodejs", "nginx-common")).toBe("missing: nginx openssl");
});
