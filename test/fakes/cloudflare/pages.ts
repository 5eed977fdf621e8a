/** What Cloudflare itself answers: the parts of its pages and headers that distinguish one rejection from another. */

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

const html = { server: "cloudflare", "content-type": "text/html; charset=UTF-8" } as const;
const page = (title: string, text: string): string =>
  `<!DOCTYPE html>\n<html lang="en-US"><head><title>${title}</title></head><body><h1>${text}</h1></body></html>\n`;

/** The only one of these with `cf-mitigated`, whose one documented value is "challenge". */
export const challenge: Answer = {
  status: 403,
  headers: { ...html, "cf-mitigated": "challenge", "cache-control": "private, max-age=0, no-store, no-cache" },
  body: page("Just a moment...", "Enable JavaScript and cookies to continue"),
};

/** A custom or a managed rule's block. */
export const blocked: Answer = {
  status: 403,
  headers: html,
  body: page("Attention Required! | Cloudflare", "Sorry, you have been blocked"),
};

/** Rejections that differ by their code alone: 1010 Browser Integrity Check, 1006 an address ban, and so on. */
export const coded = (status: number, code: number): Answer => ({
  status,
  headers: { ...html, "content-type": "text/plain; charset=UTF-8" },
  body: `error code: ${code}`,
});

export type OriginFault = 520 | 521 | 522 | 523 | 525 | 526;

export const originFault = (status: OriginFault): Answer => ({
  status,
  headers: html,
  body: page(`${status}`, `Error code ${status}`),
});
