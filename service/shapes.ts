/** Kinds of values in the settings of the programs, and of keys of the configuration. */
import * as v from "valibot";

export const whole = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));
export const text = v.pipe(v.string(), v.nonEmpty());
export const absolute = v.pipe(v.string(), v.regex(/^\/[^\0]*$/));
export const hookName = v.pipe(v.string(), v.regex(/^[a-z0-9-]{1,32}$/));
