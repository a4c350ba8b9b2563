/** Fields list: the names and values of an entry, one below the other. */
import type { Entry } from "../gateway/shapes.js";
import { type Pair, pretty } from "../values/fields.js";

export function FieldsList({ entry, pairs }: { entry: Entry; pairs: readonly Pair[] }) {
  return (
    <dl class="values">
      {pairs.map(([name, value]) => (
        <>
          <dt>
            {name}
            {entry.base64?.includes(name) && <small> base64</small>}
          </dt>
          <dd tabIndex={0}>{pretty(value)}</dd>
        </>
      ))}
    </dl>
  );
}
