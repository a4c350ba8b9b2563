// The suite of the protocol's authors, against the gateway at GATEWAY_URL.

import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({ baseUrl: process.env.GATEWAY_URL, subscriptions: true });
