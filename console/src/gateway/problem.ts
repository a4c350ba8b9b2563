/** Problem: why the gateway has refused a request, or that it cannot be reached. */
import type { Row, Schemas } from "./shapes.js";

export interface Details extends Pick<Schemas["Problem"], "status" | "detail" | "leader"> {
  code: string;
  row?: Row | null;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  /** Address of the gateway that leads, if this one does not. */
  readonly leader: string | undefined;

  /** The row as it is, if it was not as a change of it expected; null if there is none. */
  readonly row: Row | null | undefined;

  constructor(details: Details) {
    super(details.detail.replace(/^\/query\//, "")); // people fill in fields, and know of no query
    this.status = details.status;
    this.code = details.code;
    this.leader = details.leader ?? undefined;
    this.row = details.code === "row_changed" ? (details.row ?? null) : undefined;
  }

  /** Whether the thing that was asked for is not there. */
  get isMissing(): boolean {
    return this.status === 404;
  }

  /** Whether the principal may not do this. */
  get isForbidden(): boolean {
    return this.status === 403;
  }

  /** Whether the gateway has not answered at all. */
  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

/** Return the problem of an answer, which a proxy may have given instead of the gateway. */
export function problemOf(response: Response, body: unknown): Problem {
  const { detail, code, leader, row } = (body ?? {}) as Partial<Details>;
  const status = response.status;
  return new Problem({ status, code: code ?? "internal", detail: detail ?? `${status} ${response.statusText}`, leader, row });
}

/** Return the problem of a request that got no answer. */
export function unreachable(): Problem {
  return new Problem({ status: 0, code: "unavailable", detail: "The gateway cannot be reached." });
}

/** Return the problem, as people read it. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
