/** What an outcome leaves on the git host's page: as data, so that README's table is derived from it. */
import type { Answer } from "./evidence.ts";

export type Shape = {
  /** X-Served-By, which Cloudflare passes on; left out where Cloudflare answers itself. */
  readonly by?: string;
  /** 0: no answer. */
  readonly status: readonly number[];
  /** Whether Cloudflare's answer has `cf-mitigated`. */
  readonly challenge?: boolean;
  /** Pages of Cloudflare's, by number, or `blocked`. Left out: whatever the page is. */
  readonly page?: readonly string[];
  /** In the body of nginx's answer. */
  readonly text?: RegExp;
};

/** "Sorry, you have been blocked": the page of a rule. */
export const blocked = "blocked";

/** The number of Cloudflare's page, such as "error code: 1010"; undefined where the body is not known or has none. */
const pageOf = ({ body = "" }: Answer): string | undefined =>
  /you have been blocked/i.test(body) ? blocked : /\berror (?:code:? ?)?(1\d{3})\b/i.exec(body)?.[1];

function shows({ by, status, challenge = false, page, text }: Shape, answer: Answer): boolean {
  const { headers, body, partial } = answer;
  const { "x-served-by": server, "cf-mitigated": mitigated } = headers;
  const isUnseen = (value: string | undefined): boolean => partial === true && value === undefined;
  if (!status.includes(answer.status) || !(isUnseen(server) || (server || undefined) === by)) return false;
  if (by !== undefined) return !mitigated && (text === undefined || body === undefined || text.test(body));
  if (!isUnseen(mitigated) && Boolean(mitigated) !== challenge) return false;
  const found = pageOf(answer);
  return page === undefined || found === undefined || page.includes(found);
}

export const fitsAnswer = (shapes: readonly Shape[], answer: Answer): boolean =>
  shapes.some((shape) => shows(shape, answer));
