/** Origin key, request and certificate with the real openssl, below a folder that serves as the root of a host. */
import { dirname } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { Probed } from "../../../infra/apply/manifest.ts";
import { quote } from "../../../infra/apply/shell.ts";
import { clientCaLayer } from "../../../infra/host/client-ca/client-ca.ts";
import { originCertificateLayer } from "../../../infra/host/origin-certificate/origin-certificate.ts";
import { csrQuestion, originKeyLayer } from "../../../infra/host/origin-key/origin-key.ts";
import { paths, units } from "../../../infra/host/paths.ts";
import { example, exampleHost, served, siteHostname } from "../../fixtures.ts";
import { inNamespace, missing, Root } from "./namespace.ts";

const root = new Root();
afterAll(() => root.remove());
const key = root.at("/etc/pushgate/tls/origin.key");
const csr = root.at("/etc/pushgate/tls/origin.csr");
const layer = originKeyLayer(exampleHost);
const renamed = originKeyLayer({ ...exampleHost, hostname: "other.example.org" });
const reason = missing("unshare", "openssl");

/** A script in a shell of its own, as the host runs it. */
const sh = (script: string) => `sh -ec ${quote(root.moved(script))}`;
const run = ({ script }: Probed, verb: string) => sh(`${script}\n${verb}`);
const activate = (which = layer) => run(which, which.activate);
const factOf = (which: Probed) => run(which, which.facts[0]!.read);
const fact = factOf(layer);
const readCsr = factOf(csrQuestion(exampleHost));
const fresh = `rm -rf ${root.at("/etc")}; mkdir -p ${root.at("/etc")}`;
const request = /^-----BEGIN CERTIFICATE REQUEST-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE REQUEST-----$/;

test("the probe's question for the request declares nothing", () => {
  expect(csrQuestion(exampleHost)).toEqual({
    ...{ name: "request", files: [], owns: [], script: layer.script },
    facts: [{ name: "certificate request", read: "request" }],
  });
});

test("each certificate is one file that ends in one line end, whether its PEM has it or not", () => {
  for (const pem of ["PEM", "PEM\n"])
    for (const { files } of [originCertificateLayer(served, exampleHost, pem), clientCaLayer(pem)])
      expect(files[0]!.text).toBe("PEM\n");
  expect(clientCaLayer("\nPEM\n\n").files[0]!.text).toBe("\nPEM\n");
});

test("a hostname of 64 characters is the certificate's common name, and a longer one is not", () => {
  const subject = (length: number) => {
    const hostname = `${"h".repeat(length - ".example.org".length)}.example.org`;
    return [hostname, /^subject='(.*)'$/m.exec(originKeyLayer({ ...exampleHost, hostname }).script!)?.[1]];
  };
  const [longest, itsSubject] = subject(64);
  expect([itsSubject, subject(65)[1]]).toEqual([`/CN=${longest}`, "/CN=pushgate origin"]);
});

describe("the origin key", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("the layer makes a missing key, prints only its request, and the fact holds", () => {
    const made = inNamespace(`${fresh}\n${fact}\n${activate()}`);
    expect(made.stdout.replace(/^no key\n/, "")).toMatch(request);
    const seen = inNamespace(
      `${fact}\nopenssl req -in ${csr} -noout -subject -nameopt RFC2253\nstat -c %a ${key} ${csr}`,
    );
    expect(seen.stdout).toBe("valid\nsubject=CN=hooks.example.org\n600\n644");
    expect(made.stdout + made.stderr).not.toContain("PRIVATE");
    expect(inNamespace(readCsr).stdout).toBe(made.stdout.replace(/^no key\n/, ""));
  });

  test("the layer keeps a good key; a new hostname gets a new request of the same key", () => {
    const { stdout } = inNamespace(`${fresh}
${activate()} >${root.at("one")}
cp ${key} ${root.at("kept")}
${activate()} | cmp - ${root.at("one")} && echo same request
${activate(renamed)} >/dev/null
cmp ${key} ${root.at("kept")} && echo same key
${fact}
${factOf(renamed)}
${readCsr}`);
    expect(stdout.split("\n")).toEqual(["same request", "same key", "the request is for another hostname", "valid"]);
  });

  test.each([
    ["a damaged key", `echo damaged >${key}`, "not a P-256 key"],
    [
      "a key of another kind",
      `openssl genpkey -algorithm RSA -out ${key} 2>/dev/null; chmod 600 ${key}`,
      "not a P-256 key",
    ],
    ["a link in the key's place", `mv ${key} ${key}.away; ln -s ${key}.away ${key}`, "no key"],
    ["a key others can read", `chmod 644 ${key}`, "the key is 644 root:root"],
    [
      "a request of another key",
      `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ${key}; chmod 600 ${key}`,
      "the request is of another key",
    ],
    ["no request", `rm ${csr}`, "the request is missing or damaged"],
    ["a request that is no PEM", `echo damaged >${csr}`, "the request is missing or damaged"],
    [
      "a request with another signature",
      `openssl req -in ${csr} -outform DER | perl -0777 -pe 's/.\\z/chr(255 & ~ord $&)/se' | openssl req -inform DER -out ${csr}.new && mv ${csr}.new ${csr}`,
      "the request is missing or damaged",
    ],
  ])("the fact reports %s and the next apply replaces it", (_, damage, says) => {
    const { stdout } = inNamespace(
      `${fresh}\n${activate()} >/dev/null\n${damage}\n${fact}\n${activate()} >/dev/null\n${fact}`,
    );
    expect(stdout.split("\n")).toEqual([says, "valid"]);
  });

  test("a hostname longer than 64 characters is in the SAN alone", () => {
    const hostname = `${"a".repeat(60)}.example.org`;
    const long = originKeyLayer({ ...exampleHost, hostname });
    const { stdout } = inNamespace(`${fresh}\n${activate(long)} >/dev/null\n${factOf(long)}`);
    expect(stdout).toBe("valid");
  });

  test("the layer leaves nothing behind when it is removed", () => {
    const { stdout } = inNamespace(
      `${fresh}\n${activate()} >/dev/null\n${run(layer, layer.retire)}\nfind ${root.at("/etc")}`,
    );
    expect(stdout).toBe(root.at("/etc"));
  });
});

describe("the origin certificate", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));
  const signed = originCertificateLayer(example, exampleHost, "unused");
  const pem = root.at("candidate.pem");
  const check = `${sh(signed.files[0]!.check!)} check ${pem} 2>&1 || echo rejected`;
  const sign = (from: string, days: number) => `
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -keyout ${root.at("ca.key")} -out ${root.at("ca.pem")} 2>/dev/null
openssl x509 -req -in ${from} -CA ${root.at("ca.pem")} -CAkey ${root.at("ca.key")} -CAcreateserial -days ${days} -copy_extensions copy -out ${pem} 2>/dev/null`;
  const made = `${fresh}\n${activate()} >/dev/null`;

  test("the host accepts a certificate that was signed from its request", () => {
    expect(inNamespace(`${made}\n${sign(csr, 2)}\n${check}`).stdout).toBe("");
  });

  test.each([
    [
      "of another key",
      `cp ${csr} ${root.at("first.csr")}; rm ${key}; ${activate()} >/dev/null; ${sign(root.at("first.csr"), 2)}`,
      "does not match the key",
    ],
    ["of another name", `${activate(renamed)} >/dev/null; ${sign(csr, 2)}`, "is not for hooks.example.org"],
    ["past its end", sign(csr, 0), "expired: notAfter="],
    ["that is not PEM", `echo nothing >${pem}`, "not a certificate"],
  ])("the host rejects a certificate %s", (_, make, says) => {
    const { stdout } = inNamespace(`${made}\n${make}\n${check}`);
    expect(stdout).toContain(says);
    expect(stdout).toMatch(/rejected$/);
  });

  test("a host that serves a site rejects a certificate for its own name alone, and accepts one for both names", () => {
    const both = originCertificateLayer(served, exampleHost, "unused");
    const judge = `${sh(both.files[0]!.check!)} check ${pem} 2>&1 || echo rejected`;
    const names = `printf 'subjectAltName=DNS:${exampleHost.hostname},DNS:${siteHostname}' >${root.at("names")}
openssl x509 -req -in ${csr} -CA ${root.at("ca.pem")} -CAkey ${root.at("ca.key")} -CAcreateserial -days 2 -extfile ${root.at("names")} -out ${pem} 2>/dev/null`;
    const { stdout } = inNamespace(`${made}\n${sign(csr, 2)}\n${judge}\n${names}\n${judge}\n${check}`);
    expect(stdout).toBe("the certificate is not for www.example.org\nrejected");
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
    // After a manual change of the configuration nginx would not start, or make the change active. The proxy layer
    // restores the file and restarts it.
    expect(stdout).toBe(`systemctl try-restart ${units.nginx}`);
  });
});
