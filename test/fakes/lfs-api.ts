/** A server of Git LFS, as git hosts have one: the batch API of each repository, and the objects. */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";

const type = "application/vnd.git-lfs+json";

export class LfsApi {
  readonly objects = new Map<string, Buffer>();
  /** In place of the address of an object. */
  href: string | undefined;

  /** Keeps the file. Returns what git has in its place. */
  pointerTo(file: string | Buffer): string {
    const bytes = Buffer.from(file as string);
    const oid = createHash("sha256").update(bytes).digest("hex");
    this.objects.set(oid, bytes);
    return `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${bytes.length}\n`;
  }

  isOwn = ({ url = "" }: IncomingMessage): boolean => /\/info\/lfs\/objects\/batch$|^\/objects\//.test(url);

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = "", headers } = request;
    if (url.startsWith("/objects/")) return void response.end(this.objects.get(url.split("/")[2]!));
    const { objects } = (await json(request)) as { objects: { oid: string; size: number }[] };
    const found = objects.map((object) =>
      this.objects.has(object.oid)
        ? { ...object, actions: { download: { href: this.href ?? `https://${headers.host}/objects/${object.oid}` } } }
        : { ...object, error: { code: 404, message: "Object does not exist" } },
    );
    response.writeHead(200, { "content-type": type }).end(JSON.stringify({ transfer: "basic", objects: found }));
  }
}
