/** What programs on the host and the layers before them must agree on. infra/contract.ts has what concerns infra alone. */

/** The path that a hook's pushes are delivered to: Cloudflare's rules, nginx and the receiver know the same one. */
export const webhookPath = (hook: string): string => `/webhook/${hook}`;

/** `X-Served-By` of the receiver's answers: an answer without it comes from another layer. */
export const servedByReceiver = "pushgate-receiver";
