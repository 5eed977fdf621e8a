/** The lines of one delivery in a host's logs -> one piece of evidence for each time that the git host sent it. */
import { printable } from "../../service/printable.ts";
import type { Evidence, NginxLine, ReceiverLine } from "./evidence.ts";

type Line = { readonly time: string; readonly source: string; readonly text: string };
/** `hook`: as the logs name it. */
export type Attempt = Evidence & { readonly time?: string; readonly hook?: string };

/** The object of a line that is about this delivery; other lines may quote the delivery's id. */
function entryOf(delivery: string, { text }: Line): Record<string, unknown> | undefined {
  try {
    const found = Object(JSON.parse(text)) as Record<string, unknown>;
    return found.delivery === delivery ? found : undefined;
  } catch {
    return undefined;
  }
}

/** JSON can write a control character as an escape. */
const text = (value: unknown): string => (typeof value === "string" ? printable(value) : "");

/**
 * Without a line in either log there is one attempt, which reached neither. nginx logs each request, and the receiver
 * those that it got. Two lines are of one request if their client address is the same, and the receiver's status is
 * nginx's `up_status`, or 499 while nginx's own status is another.
 */
export function attempts(delivery: string, lines: readonly Line[]): Attempt[] {
  const found = lines.flatMap((line) => {
    const object = entryOf(delivery, line);
    return object === undefined ? [] : [{ ...line, object }];
  });
  const receiver = found
    .filter(({ source }) => source === "receiver")
    .map(({ time, object }) => ({
      time,
      hook: text(object.hook),
      line: {
        status: Number(object.status),
        reason: text(object.reason),
        source: text(object.source) || null,
      } satisfies ReceiverLine,
    }));
  const nginx = found.filter(({ source }) => source === "nginx");
  const both = nginx.map(({ time, object }): Attempt => {
    const line: NginxLine = {
      status: Number(object.status),
      up_status: text(object.up_status),
      up_connect: text(object.up_connect),
      in_ranges: text(object.in_ranges),
      limit: text(object.limit),
      client: text(object.client),
    };
    const at = receiver.findIndex(
      ({ line: { status, source } }) =>
        source === line.client && (status === Number(line.up_status) || (status === 499 && line.status !== status)),
    );
    const [own] = at < 0 ? [] : receiver.splice(at, 1);
    return { time, hook: text(object.hook), nginx: line, receiver: own?.line ?? "none" };
  });
  const rest = receiver.map(({ time, hook, line }): Attempt => ({ time, hook, receiver: line }));
  const all = [...both, ...rest];
  return all.length > 0 ? all : [{ nginx: "none", receiver: "none" }];
}

/** Removes "none" of a log that may lack lines, because it was not searched whole or its file system was full. */
export function doubted(attempt: Attempt, doubtful: Readonly<Record<"nginx" | "receiver", boolean>>): Attempt {
  const { nginx, receiver, ...rest } = attempt;
  const kept = <L>(line: L | "none" | undefined, doubt: boolean) => (line === "none" && doubt ? undefined : line);
  const seen = { nginx: kept(nginx, doubtful.nginx), receiver: kept(receiver, doubtful.receiver) };
  return {
    ...rest,
    ...(seen.nginx !== undefined && { nginx: seen.nginx }),
    ...(seen.receiver !== undefined && { receiver: seen.receiver }),
  };
}
