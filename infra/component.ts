/**
 * A row of the preview under which resources lie: a host or the zone. Stacks of an earlier version have these resources
 * directly below the stack; the alias lets the engine find them there, so that none is deleted and created again.
 */
import * as pulumi from "@pulumi/pulumi";

export class Component extends pulumi.ComponentResource {
  constructor(kind: "Host" | "Zone", name: string) {
    super(`pushgate:index:${kind}`, name, {}, { transformations: [adoptFromRoot] });
  }
}

const adoptFromRoot: pulumi.ResourceTransformation = ({ resource, props, opts }) =>
  resource instanceof Component
    ? undefined
    : { props, opts: pulumi.mergeOptions(opts, { aliases: [{ parent: pulumi.rootStackResource }] }) };
