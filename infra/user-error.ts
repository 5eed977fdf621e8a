/** Ends the program; only its message is printed. */
export class UserError extends Error {}

export const orUserError = <T>(promise: Promise<T>): Promise<T | UserError> =>
  promise.catch((error: unknown) => {
    if (error instanceof UserError) return error;
    throw error;
  });
