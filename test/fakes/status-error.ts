/** A failure that is an answer with this status. */
export class StatusError<Status extends number = number> extends Error {
  readonly status: Status;
  constructor(status: Status, message: string) {
    super(message);
    this.status = status;
  }
}
