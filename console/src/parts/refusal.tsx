/** Refusal: why something is not shown. */
import type { Problem } from "../gateway/problem.js";

export function Refusal({ problem, what }: { problem: Problem; what: string }) {
  return (
    <p class="refusal" role="status">
      <b>{what}</b> {problem.isForbidden ? "may not be seen with this key." : "cannot be shown."} {problem.message}
    </p>
  );
}
