/** The proxy layer's shell beside a real nginx: what a reload proves, and what preview finds out. */
import { readFileSync, rmSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { proxyLayer } from "../../../infra/host/proxy/proxy.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { exposure, inNamespace, needs, Root, unitText } from "./namespace.ts";

const layer = proxyLayer(example, exampleHost, "CA");
const script = layer.script!;
const tls = "/etc/pushgate/tls";
const port = exampleHost.originPort;
const own = ["/var/log/pushgate-nginx", "/run/pushgate-nginx", "/var/cache/pushgate-nginx"];

needs("nginx", "openssl", "unshare", "systemd-analyze");
let root: Root;
beforeEach(() => {
  root = new Root();
  root.write(`${tls}/note`, "");
  root.write(
    "bin/systemctl",
    `#!/bin/sh
case "$*" in
  *NeedDaemonReload*) printf '%s\\n' Id=nginx "NeedDaemonReload=$(cat ${root.at("stale")} 2>/dev/null || echo no)" ;;
  *MainPID*) cat ${root.at("nginx.pid")} ;;
  reload*) kill -HUP "$(cat ${root.at("nginx.pid")})" ;;
esac
`,
    0o755,
  );
});

/** Below the folder, as an account of a namespace cannot write to Debian's own. */
const temporary = () =>
  ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${root.at(name)};`).join(" ");
const main = (http: string) => `user root; pid ${root.at("nginx.pid")}; error_log ${root.at(`${own[0]}/error.log`)};
events { }
http { access_log off; ${temporary()} ${http} }`;
const pair = (name: string) =>
  `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=pushgate origin pulls of example.org" -keyout ${root.at(tls)}/${name}.key -out ${root.at(tls)}/${name}.pem 2>/dev/null`;

/** Runs `calls` of the layer's functions while an nginx with `servers` runs. */
function beside(servers: string, calls: string, text = script) {
  root.write("nginx.conf", main(servers));
  root.write(`${own[0]}/note`, "");
  const moved = root.moved(`${text}\nuntil [ -s /nginx.pid ] && [ -n "$(workers)" ]; do sleep 0.05; done`, ...own);
  return inNamespace(
    `${pair("origin")}; cp ${root.at(tls)}/origin.pem ${root.at(tls)}/origin-pull-ca.pem
nginx -c ${root.at("nginx.conf")}
${moved.replace("/nginx.pid", root.at("nginx.pid")).replace(/for _ in 1 2 3 [0-9 ]*;/g, "for _ in 1 2 3 4;")}
${calls}`,
    root.at("bin"),
  );
}

const plain = "server { listen 127.0.0.1:8081; return 204; }";

/** While nginx, which served `plain` before, finds the configuration `next`. */
const reloaded = (next: string, text = script) => {
  root.write("next.conf", next);
  const call = `cp ${root.at("next.conf")} ${root.at("nginx.conf")}; set +e; (reload); echo "reload: $?"`;
  return beside(plain, call, text);
};
const failed = {
  stdout: "reload: 1",
  stderr: expect.stringContaining("proxy: nginx has no live worker with the new"),
};

test("a reload succeeds where new workers serve, and not where they die", () => {
  expect(reloaded(main(plain))).toMatchObject({ stdout: "reload: 0", stderr: "" });
  // nginx does not look for that folder before each worker enters it, and ends.
  expect(reloaded(`working_directory /nonexistent; ${main(plain)}`)).toMatchObject(failed);
});

test("a reload does not succeed where the master keeps the former configuration, which only the wait for new workers shows", () => {
  const next = main("server { nonsense on; }");
  expect(reloaded(next)).toMatchObject(failed);
  const trusting = script.replace(/reload\(\) \{[\s\S]*?\n\}/, 'reload() {\n  systemctl reload "$service"\n}');
  expect(reloaded(next, trusting).stdout).toBe("reload: 0");
});

test("a reload does not succeed where the new workers come and end within a moment", () => {
  // No process has that id: the kernel's highest is lower.
  const come = `workers() { [ ! -e ${root.at("came")} ] || echo 9999999; : >${root.at("came")}; }\nsystemctl() { :; }`;
  const result = (text: string) => {
    rmSync(root.at("came"), { force: true });
    return inNamespace(root.moved(`${text}\n${come}\nset +e\nreload\necho "reload: $?"`, ...own)).stdout;
  };
  expect(result(script)).toBe("reload: 1");
  expect(result(script.replace('kill -0 "$worker" 2>/dev/null && return 0', "return 0"))).toBe("reload: 0");
});

test("preview finds out whether nginx runs from what it read, whatever the files' times are", () => {
  const changes: [change: string, found: string][] = [
    ["touch conf start", "yes"],
    ["echo x >>conf", "no"],
    ["echo x >>start", "no"],
    [`echo yes >${root.at("stale")}`, "no"],
  ];
  const note = `mkdir -p starts; starts=$PWD/starts loaded='cat conf' started='cat start'
: >conf; : >start; : >"starts/$service.loaded"; : >"starts/$service"`;
  const calls = changes.map(
    ([change]) => `${note}\n${change}\nrunning=$(runs_what_is_installed) || :; echo "$running"`,
  );
  root.write("files/note", "");
  const { stdout } = beside(plain, `cd ${root.at("files")}\n${calls.join("\n")}`);
  expect(stdout.split("\n").map((line, i) => [changes[i]?.[0], line])).toEqual(changes);
});

test("the check of a new configuration passes, leaves nothing behind, reads the CA that arrives with it, and fails where this nginx rejects it", () => {
  const { check, text } = layer.files.find(({ path }) => path === paths.nginx)!;
  const checked = (staged = "", conf = text) => {
    root.write(`staged${root.at(tls)}/note`, "");
    root.write("new.conf", `user root;\n${root.moved(conf, ...own)}`);
    root.write("check", root.moved(check!, ...own));
    return inNamespace(
      `cd ${root.folder}; ${pair("origin")}; cp ${root.at(tls)}/origin.pem staged${root.at(tls)}/origin-pull-ca.pem
${staged}
find . ! -name before | sort >before
staged=${root.at("staged")} sh -e check ${root.at("new.conf")} || echo "exit $?"
find . ! -name before | sort | diff before - || :`,
    );
  };
  expect(checked()).toMatchObject({ stdout: "", stderr: "" });
  expect(checked(`echo nothing >staged${root.at(tls)}/origin-pull-ca.pem`)).toMatchObject({
    ...{ stdout: "exit 1", stderr: expect.stringContaining(`${root.at("staged")}${root.at(tls)}`) },
  });
  expect(checked("", text.replace("server_tokens off;", "server_tokens of;"))).toMatchObject({
    ...{ stdout: "exit 1", stderr: expect.stringContaining('invalid value "of"') },
  });
});

test("systemd rates the exposure of nginx at 1.3", () => {
  expect(exposure(units.nginx, unitText(layer.files, units.nginx))).toBe(13);
});

test("the program that starts nginx passes it the sockets that systemd has opened, with IPv6 where there are two", () => {
  const start = layer.files.find(({ path }) => path === `${paths.lib}/nginx`)!.text;
  root.write("start", root.moved(start.replace("exec /usr/sbin/nginx", 'echo "$NGINX"'), ...own));
  root.write(`${own[1]}/note`, "");
  const started = (fds: number) =>
    inNamespace(`LISTEN_FDS=${fds} sh ${root.at("start")}; ls ${root.at(own[1]!)}`).stdout;
  expect(started(1)).toBe(`3; -e ${root.at(own[0]!)}/error.log -c ${root.at("/etc/pushgate")}/nginx.conf\nnote`);
  expect(started(2)).toMatch(/^3;4; .*\nlisten6\.conf\nnote$/);
  expect(readFileSync(root.at(`${own[1]}/listen6.conf`), "utf8")).toBe(`listen [::]:${port} ssl;\n`);
});
