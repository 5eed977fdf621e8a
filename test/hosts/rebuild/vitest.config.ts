import { hostSuite } from "../hosts-config.ts";

/** `npm run test:rebuild`. The files mostly wait for pauses, not for a core; `measure` measures time, so it runs alone. */
export default hostSuite({
  folder: "test/hosts/rebuild",
  order: ["units", "hostile", "faults"],
  alone: ["measure"],
  patience: [300, 400],
});
