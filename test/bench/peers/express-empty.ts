/** An Express app without a route, whose cold start the receiver is compared with. */
import express from "express";
import { host, port } from "./push.ts";

express().listen(port, host);
