/**
 * What every nginx server on the origin port says, whatever it serves: who may connect, and whose address counts. nginx
 * chooses the server by the name the edge asks for, so one that said less would be a way around the others.
 */

import { originKey } from "../../contract.ts";
import { networks } from "../../networks.ts";
import { originCertificate } from "../origin-certificate/origin-certificate.ts";
import * as live from "./scripts.ts";

/** One line an item, four blanks in. */
export const lines = <T>(items: readonly T[], line: (item: T) => string) =>
  items.map((item) => `    ${line(item)}`).join("\n");

/** Its own certificate, and the edge's. */
export const trust = `    ssl_certificate ${originCertificate};
    ssl_certificate_key ${originKey};
    ssl_protocols TLSv1.2 TLSv1.3;
    # Only this zone's edge holds a certificate of this CA. The vendor's shared one, which every customer's edge shows,
    # is signed by another.
    ssl_client_certificate ${live.originPullCaPath};
    # While the edge changes to another, the former one's CA: trusted until the edge has changed.
    include ${live.settled.include};
    ssl_verify_client on;
    ssl_verify_depth 1;
    ssl_session_tickets off;
`;

export const visitor = `    # The edge writes CF-Connecting-IP itself. X-Forwarded-For's beginning is the sender's, so it never counts.
${lines(networks.cloudflare.cidrs, (cidr) => `set_real_ip_from ${cidr};`)}
    real_ip_header CF-Connecting-IP;
    real_ip_recursive off;
`;
