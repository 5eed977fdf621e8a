/** A no: the status for the sender, the reason for the journal alone. */
export class Refusal extends Error {
  readonly status: number;
  readonly reason: string;
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, reason: string, headers: Readonly<Record<string, string>> = {}) {
    super(reason);
    this.status = status;
    this.reason = reason;
    this.headers = headers;
  }
}

/**
 * The sender's own faults, which use up its budget. Not 404: it has no hook to count for. Not 429: what is told to
 * wait must not wait longer for having asked. Not 5xx: that is this machine's fault.
 */
export const usesBudget = (status: number): boolean =>
  status >= 400 && status < 500 && status !== 404 && status !== 429;
