/**
 * Errors: `Problem` is a refusal by the gateway, and `Disconnected` means that there was no answer. All other errors
 * are invalid arguments.
 */
import type { FenceProblemDetails, ProblemDetails, Row, RowProblemDetails } from "./types.js";

/** The problem code, for programs: the closed list of the contract. */
export type Code = (ProblemDetails | RowProblemDetails | FenceProblemDetails)["code"];

/** The gateway refused a request. Nothing was changed. `isProblem` narrows its `code`. */
export class Problem<C extends Code = Code> extends Error {
  override readonly name = "Problem";
  readonly code: C;
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(readonly details: Omit<ProblemDetails, "code"> & { readonly code: C }) {
    super(details.detail);
    this.code = details.code;
    this.status = details.status;
    this.retryable = details.retryable;
    this.retryAfterMs = details.retryAfterMs ?? undefined;
  }
}

/** A row was not changed because it does not match the condition. */
export class RowChanged extends Problem<"row_changed"> {
  /** The current row; null if there is none. */
  readonly row: Row | null;

  constructor(details: RowProblemDetails) {
    super(details);
    this.row = (details.row ?? null) as Row | null;
  }
}

/** A commit did nothing because entries that it settles are not pending with its consumer. */
export class NotYours extends Problem<"not_yours"> {
  /** These entries, and the consumers that have them. */
  readonly held: FenceProblemDetails["held"];

  constructor(details: FenceProblemDetails) {
    super(details);
    this.held = details.held;
  }
}

/** Returns whether an error is a problem with one of these codes; without codes, whether it is any problem. */
export const isProblem = <C extends Code>(error: unknown, ...codes: C[]): error is Problem<C> =>
  error instanceof Problem && (!codes.length || codes.includes(error.code as C));

/** There is no connection, or it was lost before the answer arrived. */
export class Disconnected extends Error {
  override readonly name = "Disconnected";

  constructor(
    message: string,
    /** Close code, if it was a WebSocket. */
    readonly closeCode?: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
