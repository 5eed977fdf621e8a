/** Go modules, as go.mod and go.sum name them. */
import { type Bring, Fault } from "./fault.ts";

export const modules: Bring = async () => {
  throw new Fault("fault", "modules are not fetched yet.");
};
