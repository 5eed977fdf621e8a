/** Express with express-rate-limit in front, which here never reaches its limit. */
import { rateLimit } from "express-rate-limit";
import { serve } from "./express.ts";

serve(rateLimit({ windowMs: 60_000, limit: 1_000_000_000 }));
