/** Origin key, request and certificate with the real openssl, below a folder that serves as the root of a host. */
import { dirname } from "node:path";
import { expect, test } from "vitest";
import type { Probed } from "../../../infra/apply/manifest.ts";
import { quote } from "../../../infra/apply/shell.ts";
import { clientCaLayer } from "../../../infra/host/client-ca/client-ca.ts";
import { originCertificateLayer } from "../../../infra/host/origin-certificate/origin-certificate.ts";
import { csrQuestion, originKeyLayer } from "../../../infra/host/origin-key/origin-key.ts";
import { paths, units } from "../../../infra/host/paths.ts";
import { example, exampleHost, served, siteHostname } from "../../fixtures.ts";
import { inNamespace, needs, Root } from "./namespace.ts";

needs("unshare", "openssl");
const root = new Root();
const key = root.at("/etc/pushgate/tls/origin.key");
const csr = root.at("/etc/pushgate/tls/origin.csr");
const layer = originKeyLayer(exampleHost);
const renamed = originKeyLayer({ ...exampleHost, hostname: "other.example.org" });

let scripts = 0;
const sh = (script: string) => `sh -e ${root.write(`script-${scripts++}`, root.moved(script))}`;
const run = ({ script }: Probed, verb: string) => sh(`${script}\n${verb}`);
const activate = (which = layer) => run(which, which.activate);
const factOf = (which: Probed) => run(which, which.facts[0]!.read);
const fact = factOf(layer);
const readCsr = factOf(csrQuestion(exampleHost));
const fresh = `rm -rf ${root.at("/etc")}; mkdir -p ${root.at("/etc")}`;

test("a hostname of 64 characters is the certificate's common name, and a longer one is in the SAN alone", () => {
  const [longest, long] = [64, 65].map((length) => `${"h".repeat(length - ".example.org".length)}.example.org`);
  const [fits, none] = [longest!, long!].map((hostname) => originKeyLayer({ ...exampleHost, hostname }));
  expect(fits!.script).toContain(`\nsubject='/CN=${longest}'\n`);
  expect(none!.script).toContain("\nsubject='/CN=pushgate origin'\n");
  expect(inNamespace(`${fresh}\n${activate(none)} >/dev/null\n${factOf(none!)}`).stdout).toBe("valid");
});

test("each certificate ends in one line end, whether its PEM has none or more", () => {
  for (const end of ["", "\n\n"]) {
    const layers = [originCertificateLayer(served, exampleHost, `\nPEM${end}`), clientCaLayer(`\nPEM${end}`, 8443)];
    expect(layers.map(({ files }) => files[0]!.text)).toEqual(["\nPEM\n", "\nPEM\n"]);
  }
});

test("the layer makes a missing key and prints only its request; a new hostname gets a new one; nothing is left", () => {
  const one = root.at("one");
  const { stdout, stderr } = inNamespace(`${fresh}
${fact}
${activate()} >${one}
${fact}
openssl req -in ${csr} -noout -subject -nameopt RFC2253
stat -c %a ${key} ${csr}
${readCsr} | cmp - ${one}
cp ${key} ${root.at("kept")}
${activate()} | cmp - ${one} && echo same request
${activate(renamed)} >/dev/null
cmp ${key} ${root.at("kept")} && echo same key
${fact}
${factOf(renamed)}
${run(layer, layer.retire)}
find ${root.at("/etc")}
cat ${one}`);
  const [found, request] = stdout.split(/\n(?=-----BEGIN)/);
  expect(found!.split("\n")).toEqual([
    ...["no key", "valid", "subject=CN=hooks.example.org", "600", "644", "same request", "same key"],
    ...["the request is for another hostname", "valid", root.at("/etc")],
  ]);
  expect(request).toMatch(/^-----BEGIN CERTIFICATE REQUEST-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE REQUEST-----$/);
  expect(stderr).not.toContain("PRIVATE");
});

/** What each script prints on a host that has a key and its request. */
const eachMade = (scripts: readonly string[]) => {
  const kept = `rm -rf ${root.at("/etc")}; cp -a ${root.at("kept")} ${root.at("/etc")}`;
  const begin = `rm -rf ${root.at("kept")}; ${fresh}; ${activate()} >/dev/null; cp -a ${root.at("/etc")} ${root.at("kept")}`;
  const { stdout } = inNamespace(`${begin}\n${scripts.map((script) => `${kept}\n${script}`).join("\necho ====\n")}`);
  return stdout.split("====").map((text) => text.trim().split("\n"));
};

test("the fact reports each fault, and the next apply replaces what has it", () => {
  const requestFault = "the request is missing or damaged";
  const rows = [
    [`openssl genpkey -algorithm RSA -out ${key} 2>/dev/null; chmod 600 ${key}`, "not a P-256 key"],
    [`mv ${key} ${key}.away; ln -s ${key}.away ${key}`, "no key"],
    [
      `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ${key}; chmod 600 ${key}`,
      "the request is of another key",
    ],
    [`echo damaged >${csr}`, requestFault],
    [
      `openssl req -in ${csr} -outform DER | perl -0777 -pe 's/.\\z/chr(255 & ~ord $&)/se' | openssl req -inform DER -out ${csr}.new && mv ${csr}.new ${csr}`,
      requestFault,
    ],
  ] as const;
  const found = eachMade(rows.map(([damage]) => `${damage}\n${fact}\n${activate()} >/dev/null\n${fact}`));
  expect(found).toEqual(rows.map(([, says]) => [says, "valid"]));
});

test("the other fact has the modes, and the next apply sets them", () => {
  const modes = run(layer, layer.facts[1]!.read);
  const good = `${key} 600 root:root`;
  const [open, linked] = eachMade([
    `chmod 644 ${key}; ${modes}; ${activate()} >/dev/null; ${modes}`,
    `mv ${csr} ${csr}.away; ln -s ${csr}.away ${csr}; ${modes}; ${activate()} >/dev/null; ${modes}`,
  ]);
  const request = `${csr} 644 root:root`;
  expect(open).toEqual([`${key} 644 root:root`, request, good, request]);
  expect(linked).toEqual([good, `${csr} 777 root:root`, good, request]);
});

const signed = originCertificateLayer(example, exampleHost, "unused");
const pem = root.at("candidate.pem");
const judgedBy = ({ script, files }: typeof signed) =>
  `${sh(`${script}\n${files[0]!.check}`)} ${pem} 2>&1 || echo rejected`;
const names = root.at("names");
/** A certificate of a CA for the names of the request, or those in `more`. */
const sign = (from: string, days: number, more = "-copy_extensions copy") => `
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -keyout ${root.at("ca.key")} -out ${root.at("ca.pem")} 2>/dev/null
openssl x509 -req -in ${from} -CA ${root.at("ca.pem")} -CAkey ${root.at("ca.key")} -CAcreateserial -days ${days} ${more} -out ${pem} 2>/dev/null`;

test("the host accepts a certificate of its request, and rejects one of another key or name, past its end or damaged", () => {
  const both = originCertificateLayer(served, exampleHost, "unused");
  const site = `printf 'subjectAltName=DNS:${exampleHost.hostname},DNS:${siteHostname}' >${names}
${sign(csr, 2, `-extfile ${names}`)}`;
  const rows: [make: string, says: string, layer?: typeof both][] = [
    [sign(csr, 2), ""],
    [
      `cp ${csr} ${root.at("first.csr")}; rm ${key}; ${activate()} >/dev/null; ${sign(root.at("first.csr"), 2)}`,
      "the certificate does not match the key on this host",
    ],
    [`${activate(renamed)} >/dev/null; ${sign(csr, 2)}`, "the certificate is not for hooks.example.org"],
    [sign(csr, 0), "the certificate expired: notAfter="],
    [`echo nothing >${pem}`, "the certificate is not a certificate"],
    [sign(csr, 2), "the certificate is not for www.example.org", both],
    [site, "", both],
  ];
  const found = eachMade(rows.map(([make, , layer = signed]) => `${make}\n${judgedBy(layer)}`));
  expect(found).toEqual(rows.map(([, says]) => (says === "" ? [""] : [expect.stringContaining(says), "rejected"])));
});

test("nginx restarts only when the file changed and its configuration is as its layer installed it", () => {
  root.write("bin/systemctl", '#!/bin/sh\necho systemctl "$@"\n', 0o755);
  const conf = root.at(paths.nginx);
  const moved = root.moved(`${signed.script}\n${signed.activate}`);
  const stamps = root.at("/var/lib/pushgate/stamps");
  const apply = (changed: string) => `changed='${changed}' sh -ec ${quote(moved)}`;
  const { stdout } = inNamespace(
    `${apply(root.at("/etc/pushgate/tls/origin.pem"))}
mkdir -p ${dirname(conf)}; touch ${conf}
mkdir -p ${stamps}; sha256sum ${conf} | sed '1i 0123456789ab
s/^\\([^ ]*\\)  /file \\1 644 root:root /' >${stamps}/proxy
${apply("")}
${apply(root.at("/etc/pushgate/tls/origin.pem"))}
echo "server_tokens of;" >${conf}
${apply(root.at("/etc/pushgate/tls/origin.pem"))}`,
    root.at("bin"),
  );
  // After a manual change of the configuration nginx might not start. The proxy layer restores it, and restarts nginx.
  expect(stdout).toBe(`systemctl try-restart ${units.nginx}`);
});
