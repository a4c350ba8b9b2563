// A page that shows one table in three components: two of all rows, and one of those with a prefix.
import { createClient } from "@headgate/client";
import { HeadgateProvider, useTable } from "@headgate/react";

const hg = createClient({ url: new URLSearchParams(location.search).get("url") ?? "" });

function Stock({ id, prefix }: { id: string; prefix?: string }) {
  const { rows, state, error } = useTable("stock", prefix === undefined ? {} : { prefix });
  return (
    <ul id={id} data-state={state}>
      {rows.map(({ key, fields }) => <li key={key}>{key}: {fields["count"]}</li>)}
      {error !== null && <li>{String(error)}</li>}
    </ul>
  );
}

export default function App() {
  return (
    <HeadgateProvider client={hg}>
      <Stock id="first" /><Stock id="second" /><Stock id="some" prefix="4" />
    </HeadgateProvider>
  );
}
