/** Express with `express.raw`. */
import { serve } from "./express.ts";

serve();
