/** Standby: a line on each page of a gateway that cannot change the streams, with a way to the one that can. */
import { signal } from "@preact/signals";
import type { Problem } from "../gateway/problem.js";

/** Why this gateway is not the leader; undefined: it is, or nobody knows. */
export const standby = signal<Problem | undefined>(undefined);

export function Standby() {
  if (standby.value === undefined) return null;
  const { leader } = standby.value;
  const isUrl = leader !== undefined && /^https?:\/\//.test(leader);
  return (
    <p class="standby" role="status">
      This gateway is a standby and rejects changes.{" "}
      {isUrl ? <a href={`${leader.replace(/\/+$/, "")}/console/`}>Go to the leader: {leader}</a> : "The leader is unknown."}
    </p>
  );
}
