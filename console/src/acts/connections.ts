/** Acts on connections. */
import { call } from "../gateway/calls.js";
import type { Connection } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";

export function cutOff({ id, client }: Connection): Act<unknown> {
  return {
    title: `Disconnect ${client}`,
    verb: "Disconnect",
    right: "admin",
    destroys: true,
    about: "Closes the connection. The policy of the group decides what happens to its pending entries. Most clients reconnect automatically.",
    call: () => call("delete", "/v1/admin/connections/{connection}", { params: { path: { connection: id } } }),
    done: () => `${client} is disconnected.`,
  };
}
