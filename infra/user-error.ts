import { printableLines } from "../service/printable.ts";

/** Ends the program; only its message is printed, which may quote what a host or a program printed. */
export class UserError extends Error {
  constructor(message: string) {
    super(printableLines(message));
  }
}

export const orUserError = <T>(promise: Promise<T>): Promise<T | UserError> =>
  promise.catch((error: unknown) => {
    if (error instanceof UserError) return error;
    throw error;
  });
