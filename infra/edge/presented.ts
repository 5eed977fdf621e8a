/**
 * Whether the edge presents a client certificate yet. It takes one over within minutes, place by place, and until then
 * it shows the former one: whoever stops trusting that earlier refuses deliveries.
 */
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { type EdgeAccess, edgeApi } from "./api.ts";

type Pull = { readonly cert_id?: string; readonly status?: string; readonly cert_status?: string };

const minutes = 5;

/** Resolves once the edge says that it presents `certId` for the hostname; throws RunError after five minutes. */
export async function presented(
  access: EdgeAccess | undefined,
  zoneId: string,
  hostname: string,
  certId: string,
  pause = 2_000,
): Promise<void> {
  if (access === undefined)
    throw new pulumi.RunError(
      `whether the edge presents the new client certificate to ${hostname} can't be asked: store the token with pulumi ` +
        "config set --secret cloudflare:apiToken, then pulumi up again. Until then the machine trusts both, the former too",
    );
  const api = edgeApi(access);
  const until = Date.now() + minutes * 60_000;
  for (let told = false; ; told = true) {
    const live = await api.get<Pull>(`zones/${zoneId}/origin_tls_client_auth/hostnames/${hostname}`);
    if (live?.cert_id === certId && live.status === "active" && (live.cert_status ?? "active") === "active") return;
    if (Date.now() > until)
      throw new pulumi.RunError(
        `the edge does not present the new client certificate to ${hostname} yet (${live?.status ?? "no answer"}, ` +
          `${live?.cert_status ?? "none"}): pulumi up again in a while. Until then the machine trusts both, the former too`,
      );
    if (!told) void pulumi.log.info(`waiting until the edge presents the new client certificate to ${hostname}`);
    await sleep(pause);
  }
}
