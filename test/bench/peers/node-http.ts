/** The least that a correct server does: the measure of all others. */
import { serve } from "./http.ts";

serve();
