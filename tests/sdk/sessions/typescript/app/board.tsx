// A page that shows a stream, a table and a group, and whether what it shows is true.
import { createClient } from "@headgate/client";
import { type ConnectionValue, HeadgateProvider, useGroup, useStream, useTable } from "@headgate/react";

const query = new URLSearchParams(location.search);
const hg = createClient({
  url: query.get("url") ?? "",
  token: () => window.freshToken(),
  ...(query.get("transport") === "events" && { transport: "events" as const }),
});
const COLOURS = { connecting: "#777", live: "#18794e", lost: "#ad5700", refused: "#c62a2f" };

function State({ id, value: { state, connection, error } }: { id: string; value: ConnectionValue }) {
  return (
    <p id={id} data-state={state} data-connection={connection} style={{ color: COLOURS[connection] }}>
      {id}: {connection} <small>{error?.message}</small>
    </p>
  );
}

function Board() {
  const orders = useStream("orders", { last: 5 });
  const stock = useTable("stock");
  const work = useGroup("orders", "readers", () => {});
  const secret = useStream("secret", { after: "0" });
  return (
    <main>
      <State id="stream" value={orders} />
      <ul id="entries">{orders.entries.map(({ id, fields }) => <li key={id}>{fields["n"]}</li>)}</ul>
      <State id="table" value={stock} />
      <ul id="rows">{stock.rows.map(({ key, fields }) => <li key={key}>{key}: {fields["count"]}</li>)}</ul>
      <State id="group" value={work} />
      <State id="secret" value={secret} />
    </main>
  );
}

export default function App() {
  return <HeadgateProvider client={hg}><Board /></HeadgateProvider>;
}
