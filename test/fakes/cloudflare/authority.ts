/** A certificate authority made with openssl: for Cloudflare's Origin CA and for the certificates that Cloudflare shows. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const openssl = (...args: string[]) => run("openssl", args);

export type Pair = { readonly certificate: string; readonly key: string };

export type Authority = Awaited<ReturnType<typeof openAuthority>>;

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

export async function createAuthority(name: string): Promise<Authority> {
  const folder = await mkdtemp(join(tmpdir(), "pushgate-ca-"));
  const path = (file: string) => join(folder, file);
  const ca = ["-x509", "-days", "3650", "-addext", "basicConstraints=critical,CA:TRUE"];
  await openssl("req", ...ca, ...newKey, "-subj", `/CN=${name}`, "-keyout", path("ca.key"), "-out", path("ca.pem"));
  return openAuthority(folder);
}

/** An authority that exists already; it owns the folder. */
export async function openAuthority(folder: string) {
  const path = (file: string) => join(folder, file);
  /** PEM: what a program needs to trust it. */
  const certificate = await readFile(path("ca.pem"), "utf8");

  /** Signs the request's public key, and nothing else of it: names and validity are the caller's. Throws on a bad CSR. */
  async function sign(csr: string, names: readonly string[], days: number): Promise<string> {
    // Two signatures at once must not share a file: the name is the serial number, positive by its first digit.
    const serial = `1${randomBytes(15).toString("hex")}`;
    const usage = names.length > 0 ? "serverAuth" : "clientAuth";
    const alternative = names.length > 0 ? `subjectAltName=${names.map((one) => `DNS:${one}`).join(",")}\n` : "";
    await writeFile(path(`${serial}.csr`), csr);
    const extensions = `basicConstraints=critical,CA:FALSE\nextendedKeyUsage=${usage}\n${alternative}`;
    await writeFile(path(`${serial}.ext`), extensions);
    const files = ["-in", path(`${serial}.csr`), "-extfile", path(`${serial}.ext`), "-out", path(`${serial}.pem`)];
    const from = ["-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-set_serial", `0x${serial}`, "-days", `${days}`];
    await openssl("x509", "-req", ...files, ...from);
    return readFile(path(`${serial}.pem`), "utf8");
  }

  /** A key and a certificate for these names, or for a client if there are none. */
  async function issue(commonName: string, names: readonly string[] = []): Promise<Pair> {
    const file = randomBytes(8).toString("hex");
    const out = ["-keyout", path(`${file}.key`), "-out", path(file)];
    await openssl("req", "-new", ...newKey, "-subj", `/CN=${commonName}`, ...out);
    const signed = await sign(await readFile(path(file), "utf8"), names, 90);
    return { certificate: signed, key: await readFile(path(`${file}.key`), "utf8") };
  }

  return { folder, certificate, issue, sign, close: () => rm(folder, { recursive: true, force: true }) };
}
