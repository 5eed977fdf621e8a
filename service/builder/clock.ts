/** Milliseconds of a clock that never goes back. Not `performance.now()`, for which Node 18 loads modules for 6 ms. */
export const uptime = (): number => process.uptime() * 1000;
