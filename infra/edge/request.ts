/** One request of the command line and the program to an API. No server is trusted: time and bytes are bounded. */

/** Headers have their names in lower case. */
export type Got = Readonly<{ status: number; headers: Readonly<Record<string, string>>; text: string }>;

/** Characters: a list of Cloudflare's has less than one MiB. */
const longest = 16 << 20;

/** Rejects without a whole answer, with the reason as its message. */
export async function request(url: string, options: RequestInit, signal = AbortSignal.timeout(20_000)): Promise<Got> {
  try {
    const answer = await fetch(url, { ...options, signal });
    const decoder = new TextDecoder();
    let text = "";
    for await (const part of answer.body ?? []) {
      text += decoder.decode(part, { stream: true });
      if (text.length > longest) throw new Error(`its answer is longer than ${longest >> 20} MiB`);
    }
    return { status: answer.status, headers: Object.fromEntries(answer.headers), text };
  } catch (error) {
    const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    // Where several addresses failed, the message is empty.
    throw new Error(message || code);
  }
}
