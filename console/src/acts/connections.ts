/** Acts on connections. */
import { call } from "../gateway/calls.js";
import type { Connection } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";

export function cutOff({ id, client }: Connection): Act<unknown> {
  return {
    title: `Cut off ${client}`,
    verb: "Cut off",
    right: "admin",
    destroys: true,
    about: "The connection ends. What it holds goes where the group's policy says; most clients come back by themselves.",
    call: () => call("delete", "/v1/admin/connections/{connection}", { params: { path: { connection: id } } }),
    done: () => `${client} is cut off.`,
  };
}
