/** Fields in line: what is in an entry, in a cell or a line; a long value is cut. */
import type { Pair } from "../values/fields.js";

const LENGTH_MAX = 200;

export function FieldsInLine({ pairs }: { pairs: readonly Pair[] }) {
  return (
    <>
      {pairs.map(([name, value]) => (
        <>
          <i>{name}</i>=<bdi>{value.length > LENGTH_MAX ? `${value.slice(0, LENGTH_MAX)}…` : value}</bdi>{" "}
        </>
      ))}
    </>
  );
}
