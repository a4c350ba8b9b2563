/** Problem: why the gateway has refused a request, or that it cannot be reached. */
import type { Schemas } from "./shapes.js";

export type Details = Pick<Schemas["Problem"], "status" | "code" | "detail" | "leader">;

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  /** Address of the gateway that leads, if this one does not. */
  readonly leader: string | undefined;

  constructor(details: Details) {
    super(details.detail);
    this.status = details.status;
    this.code = details.code;
    this.leader = details.leader ?? undefined;
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
  const { detail, code, leader } = (body ?? {}) as Partial<Details>;
  const status = response.status;
  return new Problem({ status, code: (code ?? "internal"), detail: detail ?? `${status} ${response.statusText}`, leader });
}

/** Return the problem of a request that got no answer. */
export function unreachable(): Problem {
  return new Problem({ status: 0, code: "unavailable", detail: "The gateway cannot be reached." });
}

/** Return the problem, as people read it. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
