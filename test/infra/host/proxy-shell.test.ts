/** The proxy layer's shell beside a real nginx: which listeners are its neighbours, and what it finds out about its trust. */
import { readFileSync, rmSync, statSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { clientCaLayer } from "../../../infra/host/client-ca/client-ca.ts";
import { paths } from "../../../infra/host/paths.ts";
import { proxyLayer } from "../../../infra/host/proxy/proxy.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { noNginx } from "./lab/origin.ts";
import { inNamespace, Root } from "./namespace.ts";

const { script = "", files } = proxyLayer(example, exampleHost, "CA");
const tls = "/etc/pushgate/tls";

let root: Root;
beforeEach(({ skip }) => {
  skip(noNginx !== undefined, noNginx);
  root = new Root();
  root.write("bin/systemctl", `#!/bin/sh\ncat ${root.at("nginx.pid")}\n`, 0o755);
});
afterEach(() => root.remove());

/** Below the folder, as an account of a namespace cannot write to Debian's own. */
const temporary = () =>
  ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${root.at(name)};`).join(" ");
const main = (http: string) => `user root; pid ${root.at("nginx.pid")}; error_log ${root.at("error.log")};
events { }
http { access_log off; ${temporary()} ${http} }`;

/** Runs `calls` of the layer's functions while an nginx with `servers` runs. */
function beside(servers: string, calls: string) {
  root.write("nginx.conf", main(servers));
  const text = `nginx -p ${root.folder} -c ${root.at("nginx.conf")}\n${script}
until [ -s ${root.at("nginx.pid")} ] && [ -n "$(workers)" ]; do sleep 0.05; done
${calls}`;
  return inNamespace(root.moved(text), root.at("bin"));
}

describe("a process that calls itself nginx", () => {
  const servers = "server { listen 127.0.0.1:8081; return 204; } server { listen [::1]:8082; return 204; }";
  /** It answers once, as a site does, and then listens no more: after the reload this site would be lost. */
  const impostor = (port: number, name: string) =>
    `perl -MIO::Socket::INET -e '$0 = shift; my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:${port}", Listen => 5, ReuseAddr => 1) or die;
     my $c = $s->accept; 1 while <$c> =~ /\\w/; print $c "HTTP/1.0 200 OK\\r\\n\\r\\n"; close $c' ${name} &\n`;
  const impostors = `${impostor(9091, "nginx")}${impostor(9092, `'",pid='$(cat /nginx.pid),`)}until [ "$(ss -Hltn | grep -c ':909[12] ')" = 2 ]; do sleep 0.05; done\n`;
  const started = () => impostors.replace("/nginx.pid", root.at("nginx.pid"));

  test("is no neighbour, whatever its name holds", () => {
    const { stdout, status } = beside(servers, `${started()}neighbours`);
    expect([status, stdout]).toEqual([0, "127.0.0.1 8081\n::1 8082"]);
  });

  test("that listens as pushgate's server, on a former origin port, is no neighbour either", () => {
    const own = "server { listen 127.0.0.1:8444; add_header X-Served-By pushgate-proxy always; return 400; }";
    expect(beside(`${servers} ${own}`, "neighbours").stdout).toBe("127.0.0.1 8081\n::1 8082");
    const all = /^neighbours\(\) \{[\s\S]*?^\}/m.exec(script)![0];
    const any = all.replace('[[ $line != "X-Served-By: $3"* ]] || exit 1', ":");
    expect(any).not.toBe(all);
    expect(beside(`${servers} ${own}`, `${any}\nneighbours`).stdout).toContain("127.0.0.1 8444");
  });

  test("would be one, and its end a lost site, if neighbours were found by name", () => {
    const byName = `listeners() { ss -Hltnp | sed -n '/("nginx",/s/^[^ ]* *[^ ]* *[^ ]* *\\([^ ]*\\):\\([0-9]*\\) .*/\\1 \\2/p' | sort -u; }\n`;
    const { stdout } = beside(servers, `${byName}${started()}neighbours\necho then\nneighbours`);
    const [before, after] = stdout.split("\nthen\n");
    expect(before).toContain("127.0.0.1 9091");
    expect(after).not.toContain("127.0.0.1 9091");
  });

  test("would be one, if neighbours were found by a process id in what ss prints", () => {
    const byId = `listeners() { for pid in $(processes); do ss -Hltnp | grep -F "pid=$pid," | sed 's/^[^ ]* *[^ ]* *[^ ]* *\\([^ ]*\\):\\([0-9]*\\) .*/\\1 \\2/'; done | sort -u; }\n`;
    expect(beside(servers, `${byId}${started()}neighbours`).stdout).toContain("127.0.0.1 9092");
  });

  test("does not listen for the origin port", () => {
    const listening = (on: string, calls: string) =>
      beside(`server { listen ${on}; }`, `port=8443\n${calls}listens`).stdout;
    const two = "[::]:8443; listen 8443";
    expect(listening(two, "")).toBe("yes");
    expect(
      listening(
        "127.0.0.1:8081",
        `${impostor(8443, "nginx")}${impostor(8443, "nginx").replaceAll("::INET", "::IP").replace("127.0.0.1", "[::1]")}until [ "$(ss -Hltn | grep -c ':8443 ')" = 2 ]; do sleep 0.05; done
`,
      ),
    ).toBe("no");
  });
});

describe("after a reload the layer proves that nginx serves as declared, and fails", () => {
  const port = exampleHost.originPort;
  const origin = `server { listen 127.0.0.1:${port} ssl default_server;
    ssl_certificate ${"@"}/origin.pem; ssl_certificate_key ${"@"}/origin.key;
    ssl_client_certificate ${"@"}/origin.pem; ssl_verify_client on;
    add_header X-Served-By pushgate-proxy always; error_page 495 496 = @none; location @none { return 400; } }`;
  const neighbour = "server { listen 127.0.0.1:8081; return 204; }";
  const systemctl = () => `#!/bin/sh
case "$*" in
  'show -p MainPID'*) cat ${root.at("nginx.pid")} ;;
  'reload nginx.service') kill -HUP "$(cat ${root.at("nginx.pid")})" ;;
esac
`;
  /** `activate` while nginx, which served `servers(origin, neighbour)` before, finds the configuration `then`. */
  const applied = (then: string, { layer = script, beside: also = "" } = {}) => {
    const inRoot = (text: string) => text.replaceAll("@/", `${root.at(tls)}/`);
    root.write(`${tls}/note`, "");
    root.write("bin/systemctl", systemctl(), 0o755);
    root.write("nginx.conf", main(inRoot(`${origin} ${neighbour}`)));
    root.write("next.conf", inRoot(then));
    // A second of patience is enough here; the namespace has no other account.
    const nginx = `nginx -p ${root.folder} -c ${root.at("nginx.conf")}`;
    const quick = root
      .moved(layer)
      .replaceAll("nginx -t -q", `${nginx} -t -q`)
      .replace(/for _ in 1 2 3 [0-9 ]*;/g, "for _ in 1 2 3 4;");
    return inNamespace(
      `cd ${root.at(tls)}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=origin -keyout origin.key -out origin.pem 2>/dev/null
cp origin.pem origin-pull-ca.pem
${also}
${nginx}
${quick}
chown() { :; }
chmod() { :; }
until [ -n "$(workers)" ]; do sleep 0.05; done
cp ${root.at("next.conf")} ${root.at("nginx.conf")}
set +e
(set -e; activate)
echo "activate: $?"`,
      root.at("bin"),
    );
  };
  const without = (found: string | RegExp, instead = "") => {
    const changed = script.replace(found, instead);
    expect(changed).not.toBe(script);
    return { layer: changed };
  };
  const both = () => main(`${origin} ${neighbour}`);
  const taken = {
    beside:
      "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => \"127.0.0.1:8083\", Listen => 1) or die; sleep 30' &\nuntil ss -Hltn | grep -q :8083; do sleep 0.05; done",
  };

  test("where nothing is wrong, not", () => {
    expect(applied(both())).toMatchObject({ stdout: "activate: 0", stderr: "" });
  });

  test("where the new workers die, although nginx -t passed", () => {
    // nginx -t does not look for that folder, and each worker ends as it enters it.
    const { stdout, stderr } = applied(`working_directory /nonexistent; ${both()}`);
    expect(stderr).toContain("proxy: nginx has no live worker with the new configuration. Its error log ends with:");
    expect(stdout).toBe("activate: 1");
  });

  test("where the new workers come and end within a moment", () => {
    // No process has that id: the kernel's highest is lower.
    const come = `workers() { [ ! -e ${root.at("came")} ] || echo 9999999; : >${root.at("came")}; }\nsystemctl() { :; }`;
    const takenUp = ({ layer = script } = {}) => {
      rmSync(root.at("came"), { force: true });
      return inNamespace(root.moved(`${layer}\n${come}\nset +e\ntake_up\necho "take_up: $?"`));
    };
    const failed = takenUp();
    expect(failed.stdout).toBe("take_up: 1");
    expect(failed.stderr).toContain("proxy: nginx has no live worker with the new configuration.");
    expect(takenUp(without('kill -0 "$worker" 2>/dev/null && return 0', "return 0")).stdout).toBe("take_up: 0");
  });

  test("where the master keeps the former configuration, as it cannot bind", () => {
    const next = main(`${origin} ${neighbour} server { listen 127.0.0.1:8083; }`);
    const { stdout, stderr } = applied(next, taken);
    expect(stderr).toContain("proxy: nginx has no live worker with the new configuration.");
    expect(stdout).toBe("activate: 1");
  });

  test("and would pass there, without the wait for new workers", () => {
    const next = main(`${origin} ${neighbour} server { listen 127.0.0.1:8083; }`);
    const { stdout } = applied(next, { ...taken, ...without("    take_up\n", "    systemctl reload nginx.service\n") });
    expect(stdout).toBe("activate: 0");
  });

  const forwarded = () => main(`${origin.replace("X-Served-By pushgate-proxy", "X-Other yes")} ${neighbour}`);
  test("where another server answers on the origin port", () => {
    const { stdout, stderr } = applied(forwarded());
    expect(stderr).toMatch(
      new RegExp(
        `^proxy: port ${port} answers "400", not "400 pushgate-proxy"\\. See which program .*sport = :${port}`,
      ),
    );
    expect(stdout).toBe("activate: 1");
  });

  test("and would pass there, without the request to the origin port", () => {
    expect(applied(forwarded(), without('if [ "$said" != "$answer" ]', "if false")).stdout).toBe("activate: 0");
  });

  test("where another site of this nginx answered before and does not now", () => {
    const { stdout, stderr } = applied(main(origin));
    expect(stderr).toContain(
      "proxy: another site of this nginx, on 127.0.0.1 8081, answered before the reload and does not answer now.",
    );
    expect(stdout).toBe("activate: 1");
    expect(applied(main(origin), without('if [ -n "$lost" ]', "if false")).stdout).toBe("activate: 0");
  });
});

describe("preview finds workers", () => {
  const servers = "server { listen 127.0.0.1:8081; return 204; }";
  const files = `mkdir -p ${"@"}; touch -d '10 seconds ago' ${"@"}/a; conf=${"@"}/a client_ca=${"@"}/a trusted_ca=${"@"}/a`;
  const current = (change: string) =>
    beside(servers, `${files.replaceAll("@", root.at("etc"))}\n${change}\nworkers_are_current`).stdout;
  test("that are older than their configuration, or than a CA beside it", () => {
    expect(current("")).toBe("yes");
    for (const name of ["conf", "client_ca", "trusted_ca"])
      expect(current(`touch -d '10 seconds' ${root.at("etc/b")}; ${name}=${root.at("etc/b")}`)).toBe("no");
  });

  const held = (drop: string) => {
    root.write("nginx.conf", main(servers));
    return inNamespace(
      `${drop} nginx -p ${root.folder} -c ${root.at("nginx.conf")}\n${script}
until [ -s ${root.at("nginx.pid")} ] && [ -n "$(workers)" ]; do sleep 0.05; done
of_each_worker holds_net_raw`,
      root.at("bin"),
    ).stdout;
  };
  test("without CAP_NET_RAW", () => {
    expect(held("")).toBe("yes");
    expect(held("setpriv --bounding-set=-net_raw --inh-caps=-net_raw")).toBe("no");
    expect(held("setpriv --bounding-set=-net_admin --inh-caps=-net_admin")).toBe("yes");
  });
});

describe("the check of a new configuration", () => {
  const conf = "conf.d/pushgate.conf";
  const { check } = files.find(({ path }) => path === paths.nginx)!;
  const server = () => `server {
    listen 127.0.0.1:8443 ssl;
    ssl_certificate ${root.at(tls)}/ca.pem; ssl_certificate_key ${root.at(tls)}/ca.key;
    ssl_client_certificate ${root.at(tls)}/ca.pem; ssl_verify_client on;
  }`;
  /** `held`: shell that answers systemctl's two questions about nginx. `staged`: what changes in the staged files. */
  const checked = ({ held = "echo 0 >main-pid", staged = "", includes = "conf.d", text = server() } = {}) => {
    root.write(conf, "# former");
    root.write("nginx.conf", main(`include ${root.at(includes)}/*.conf;`));
    root.write(`staged${root.at(conf)}`, text);
    root.write(`staged${root.at(tls)}/note`, "");
    root.write(`${tls}/note`, "");
    root.write("bounds", "cap_chown cap_net_raw cap_kill");
    root.write("bin/nginx", `#!/bin/sh\nexec /usr/sbin/nginx -c ${root.at("nginx.conf")} "$@"\n`, 0o755);
    root.write(
      "bin/systemctl",
      `#!/bin/sh\ncase $* in *MainPID*) cat ${root.at("main-pid")} ;; *CapabilityBoundingSet*) cat ${root.at("bounds")} ;; esac\n`,
      0o755,
    );
    root.write("check", check!);
    return inNamespace(
      `cd ${root.folder}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ${root.at(tls)}/ca.key -out ${root.at(tls)}/ca.pem 2>/dev/null
cp ${root.at(tls)}/ca.pem staged${root.at(tls)}/ca.pem
${staged}
${held}
code=0; staged=${root.at("staged")} sh -e check ${root.at("staged")}${root.at(conf)} || code=$?
echo "exit $code"; cat ${conf}`,
      root.at("bin"),
    );
  };
  const accepted = { stdout: "exit 0\n# former", stderr: "" };
  /** A process in place of nginx, which the kernel shows with its capabilities. */
  const runs = (options: string) => `${options} sleep 60 &
until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.05; done
echo $! >main-pid`;

  test("passes where nginx can serve it, and the live configuration stays", () => {
    expect(checked()).toMatchObject(accepted);
    expect(checked({ held: runs("") })).toMatchObject(accepted);
  });

  test.each([
    ["runs", runs("setpriv --bounding-set=-net_raw --inh-caps=-net_raw")],
    ["would start", "echo 0 >main-pid; echo cap_chown cap_net_raw_not cap_kill >bounds"],
  ])("fails where nginx %s without CAP_NET_RAW, although nginx -t passes", (_, held) => {
    const { stdout, stderr } = checked({ held });
    expect(stderr).toContain("proxy: nginx does not hold CAP_NET_RAW, so its workers would die on reload");
    expect(stdout).toBe("exit 1\n# former");
  });

  test("fails where nginx does not read the folder, although nginx -t passes", () => {
    const { stdout, stderr } = checked({ includes: "sites" });
    expect(stderr).toBe(
      `proxy: nginx does not read ${root.at(conf)}. Add "include ${root.at("conf.d")}/*.conf;" to the http block of /etc/nginx/nginx.conf.`,
    );
    expect(stdout).toBe("exit 1\n# former");
  });

  test("fails where nginx rejects it", () => {
    const { stdout, stderr } = checked({ text: "server { listen 8443; nonsense on; }" });
    expect(stderr).toContain('unknown directive "nonsense"');
    expect(stdout).toBe("exit 1\n# former");
  });

  test("reads the CA that arrives with it, not the one in its place", () => {
    const { stdout, stderr } = checked({ staged: `echo nothing >staged${root.at(tls)}/ca.pem` });
    expect(stderr).toContain(`${root.at("staged")}${root.at(tls)}/ca.pem`);
    expect(stdout).toBe("exit 1\n# former");
    const own = server().replace("/ca.pem;", "/own.pem;");
    const first = `mv ${root.at(tls)}/ca.pem ${root.at(tls)}/own.pem`;
    expect(checked({ staged: first, text: own })).toMatchObject(accepted);
  });
});

describe("the answer to a client certificate of another CA", () => {
  const server = (verify: string, also: string) => `server {
    listen 127.0.0.1:${exampleHost.originPort} ssl;
    ssl_certificate ${root.at(tls)}/ca.pem; ssl_certificate_key ${root.at(tls)}/ca.key;
    ssl_client_certificate ${root.at(tls)}/origin-pull-ca.pem; ssl_verify_client ${verify};
    add_header X-Served-By pushgate-proxy always; ${also} return 404;
  }`;
  const certificates = `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=pushgate origin pulls of example.org" -keyout ca.key -out ca.pem 2>/dev/null; cp ca.pem origin-pull-ca.pem`;
  const answer = (verify: string, also = "") => {
    root.write(`${tls}/note`, "");
    inNamespace(`cd ${root.at(tls)}; ${certificates}`);
    return beside(server(verify, also), "greeting_of_foreigner").stdout;
  };

  test("is a rejection, although that CA has the same name", () => {
    expect(answer("on")).toMatch(/^400 pushgate-proxy/);
  });
  test.each(["off", "optional_no_ca"])("is another one where nginx verifies with ssl_verify_client %s", (verify) => {
    expect(answer(verify)).toMatch(/^404 pushgate-proxy/);
  });
  test("is another one where nginx looks at the name of a certificate's CA alone", () => {
    const byName = 'if ($ssl_client_i_dn != "CN=pushgate origin pulls of example.org") { return 400; }';
    expect(answer("optional_no_ca", byName)).toMatch(/^404 pushgate-proxy/);
    expect(answer("optional_no_ca", byName.replace("example.org", "example.net"))).toMatch(/^400 pushgate-proxy/);
  });
});

describe("an http level that replaces the bodies of deliveries", () => {
  const found = (http: string, server = "") => {
    root.write("conf.d/pushgate.conf", `server { listen 8443; ${server} }`);
    root.write("nginx.conf", main(`${http} include ${root.at("conf.d")}/*.conf;`));
    root.write("bin/nginx", `#!/bin/sh\nexec /usr/sbin/nginx -c ${root.at("nginx.conf")} "$@"\n`, 0o755);
    // nginx would go on with the folder of the attempt, which is gone.
    const calls = `conf=${root.at("conf.d/pushgate.conf")}\nreplaces_bodies\n[ -s "$conf" ] || echo no configuration`;
    return inNamespace(`${script}\nset +e\n${calls}`, root.at("bin")).stdout;
  };

  test("is found, before or after pushgate's file", () => {
    expect(found("proxy_set_body x;")).toBe("yes");
    expect(found("include /dev/null; server { listen 81; proxy_set_body x; }")).toBe("no");
    expect(found("")).toBe("no");
    expect(found("", "location / { proxy_set_body x; proxy_pass http://127.0.0.1; }")).toBe("no");
  });
});

describe("the CA that nginx trusts beside the newest", () => {
  const wrote = (layer: { readonly script?: string | undefined }, calls: string) => {
    root.write(`${tls}/origin-pull-ca.pem`, "new");
    const ran = inNamespace(root.moved(`${layer.script}\nreload_nginx() { :; }\n${calls}`), root.at("bin"));
    expect(ran.stderr).toBe("");
    return readFileSync(root.at(`${tls}/trusted-ca.conf`), "utf8").replaceAll(root.folder, "");
  };
  const ca = clientCaLayer("CA");

  test("is the settled one, and the new one where there is none or it is about to be removed", () => {
    expect(wrote({ script }, "write_trust")).toBe(`ssl_trusted_certificate ${tls}/origin-pull-ca.pem;\n`);
    root.write(`${tls}/settled-ca.pem`, "settled");
    expect(wrote(ca, "changed=x\nactivate")).toBe(`ssl_trusted_certificate ${tls}/settled-ca.pem;\n`);
    expect(wrote(ca, "retire")).toBe(`ssl_trusted_certificate ${tls}/origin-pull-ca.pem;\n`);
    expect(wrote(ca, "reactivate")).toBe(`ssl_trusted_certificate ${tls}/settled-ca.pem;\n`);
  });

  test("is the new one where the settled one is an empty file, with which nginx would not start", () => {
    root.write(`${tls}/settled-ca.pem`, "");
    expect(wrote({ script }, "write_trust")).toBe(`ssl_trusted_certificate ${tls}/origin-pull-ca.pem;\n`);
  });

  test.each(["077", "000"])("is in a file that root alone can write, with a umask of %s", (umask) => {
    wrote({ script }, `umask ${umask}\nwrite_trust`);
    expect(statSync(root.at(`${tls}/trusted-ca.conf`)).mode & 0o777).toBe(0o644);
  });

  test("is reported by preview where the file names another one, or is missing", () => {
    const seen = () => inNamespace(root.moved(`${script}\ntrusted`), root.at("bin")).stdout;
    expect(seen()).toBe("another CA, or none");
    wrote({ script }, "write_trust");
    expect(seen()).toBe("as declared");
    root.write(`${tls}/trusted-ca.conf`, "ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;\n");
    expect(seen()).toBe("another CA, or none");
  });
});
