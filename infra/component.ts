/** A row of the preview under which resources lie: a host or the zone. */
import * as pulumi from "@pulumi/pulumi";

export class Component extends pulumi.ComponentResource {
  constructor(kind: "Host" | "Zone", name: string) {
    super(`pushgate:index:${kind}`, name);
  }
}
