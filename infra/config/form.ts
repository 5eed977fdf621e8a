/** What a schema of the configuration says of itself: the text that completes "Use …" in a fault. */
import * as v from "valibot";

export type Schema = v.GenericSchema & {
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly value?: v.GenericSchema;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
};

/** A schema without its `optional`. */
export const unwrapped = (schema: Schema): Schema =>
  schema.wrapped === undefined ? schema : unwrapped(schema.wrapped);

/** The text that completes "Use …" for a schema. */
export function formOf(schema: Schema): string {
  const { form } = v.getMetadata(schema);
  if (typeof form === "string") return form;
  return schema.entries === undefined ? "text" : `an object with the keys ${Object.keys(schema.entries).join(", ")}`;
}
