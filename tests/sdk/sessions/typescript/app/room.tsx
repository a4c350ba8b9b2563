// A page with the messages of a channel and who is there, each in two components; what it is called is in its URL.
import { createClient } from "@headgate/client";
import { HeadgateProvider, useChannel, usePresence } from "@headgate/react";
import { useState } from "react";

const query = new URLSearchParams(location.search);
const hg = createClient({ url: query.get("url") ?? "" });

function Messages({ id }: { id: string }) {
  const { messages, publish, connection } = useChannel("room-1", { last: 2 });
  return (
    <ul id={id} data-connection={connection}>
      {messages.map(({ data }, number) => <li key={number}>{data}</li>)}
      <button onClick={() => publish(`${query.get("name")} ${messages.length}`)}>say</button>
    </ul>
  );
}

function Here() {
  const { members, me, error } = usePresence("room-1");
  const names = members.flatMap(({ connections }) => connections.map(({ data }) => String(data["name"])));
  return <p id="here">{names.sort().join(", ")} {me && "with me"}{error?.message}</p>;
}

function Me() {
  const [name, setName] = useState(query.get("name"));
  const { me } = usePresence("room-1", { name });
  return <button id="me" onClick={() => setName(`${name}!`)}>{String(me?.connections[0]?.data["name"])}</button>;
}

export default function App() {
  return <HeadgateProvider client={hg}><Messages id="first" /><Messages id="second" /><Me /><Here /></HeadgateProvider>;
}
