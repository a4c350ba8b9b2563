// Codes of problems are types: this is compiled, and not run.
import { type Code, Disconnected, isProblem, Problem, type Row, RowChanged } from "@headgate/client";

export function narrowed(error: unknown): "stream_not_found" | "group_not_found" | undefined {
  if (isProblem(error, "stream_not_found", "group_not_found")) return error.code;
  // @ts-expect-error the contract has no such code
  if (isProblem(error, "no_such_code")) return undefined;
  // @ts-expect-error any code may stand here
  if (isProblem(error)) return error.code;
  return undefined;
}

export function told(problem: Problem<"rate_limited" | "forbidden">): string {
  const any: Problem = problem;
  switch (problem.code) {
    case "rate_limited": return `again in ${problem.retryAfterMs} ms`;
    case "forbidden": return problem.details.detail;
  }
  const none: never = problem.code;
  return none ?? any.message;
}

export const codeOf = (error: Problem | Disconnected): Code | undefined =>
  isProblem(error) ? error.code : undefined;

export const rowOf = (error: unknown): Row | null | undefined =>
  error instanceof RowChanged && error.code === "row_changed" ? error.row : undefined;
