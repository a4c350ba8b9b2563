/** Refusal: why something is not shown. */
import type { Problem } from "../gateway/problem.js";

export function Refusal({ problem, what }: { problem: Problem; what: string }) {
  return (
    <p class="refusal" role="status">
      {problem.isForbidden ? "This key cannot read" : "Cannot show"} <b>{what}</b>. {problem.message}
    </p>
  );
}
