/**
 * A fake HashiCorp Vault, one of the secrets providers that Pulumi has. It keeps a stack's key in place of a passphrase,
 * whose key takes each run of the engine 0.7 s of a core. The engine encrypts with a data key, which this fake returns as it
 * came.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

const token = "a-token-of-the-fake-vault";
/** What `--secrets-provider` has for the fake. */
export const vaultKey = "hashivault://test";

const mark = "vault:v1:";
let address: Promise<string> | undefined;

/** `PUT /v1/transit/{encrypt,decrypt}/<key>`: https://developer.hashicorp.com/vault/api-docs/secret/transit */
const server = createServer(async (request, response) => {
  const reject = (status: number) => response.writeHead(status).end('{"errors":["rejected by the fake Vault"]}');
  const [, operation] = /^\/v1\/transit\/(encrypt|decrypt)\/[\w-]+$/.exec(request.url ?? "") ?? [];
  const body = JSON.parse((await text(request)) || "{}") as { plaintext?: string; ciphertext?: string };
  if (request.headers["x-vault-token"] !== token) return void reject(403);
  if (request.method !== "PUT" || operation === undefined) return void reject(404);
  const { plaintext, ciphertext } = body;
  if (operation === "decrypt" && !ciphertext?.startsWith(mark)) return void reject(400);
  const data =
    operation === "encrypt" ? { ciphertext: mark + plaintext } : { plaintext: ciphertext?.slice(mark.length) };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ data }));
});

/** The variables of the engine with which it reaches the fake, which this process serves until it ends. */
export async function vault(): Promise<Record<string, string>> {
  address ??= new Promise((done) => {
    server.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)).unref();
  });
  return { VAULT_SERVER_URL: await address, VAULT_SERVER_TOKEN: token };
}
