// The page: a chat of the AI SDK, whose answers are streams of the gateway. The address names the chat, so a reload or
// another tab shows it, and goes on in the middle of an answer.

import { Chat, useChat } from "@ai-sdk/react";
import { createDurableChatTransport } from "@durable-streams/aisdk-transport";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

location.hash ||= crypto.randomUUID();
const id = location.hash.slice(1);
const messages = await (await fetch(`/chats/${id}`)).json();

// What is resumed begins with the first word. The transport does not say so, and without it a browser shows the words
// before a lost connection twice. (`useChat` passes this on only within a `Chat`, and not from its option `transport`.)
const transport = { ...createDurableChatTransport({ api: "/chats" }), resumeStreamIsReplay: true };
const chat = new Chat({ id, messages, transport });

function Page() {
  const { messages, status, sendMessage, resumeStream } = useChat({ chat, resume: true });

  // The connection was lost, as when the gateway starts anew.
  useEffect(() => {
    if (status === "error") resumeStream();
  }, [status]);

  // The SDK's own `stop` would end what this tab reads, and not the answer. So the model stops, and all tabs see the end.
  const stop = () => fetch(`/chats/${id}/stop`, { method: "POST" });
  const ask = (event) => {
    event.preventDefault();
    sendMessage({ text: new FormData(event.target).get("question") });
    event.target.reset();
  };
  const isAnswering = status === "submitted" || status === "streaming";
  return (
    <>
      {messages.map(({ id, role, parts }) => (
        <p key={id} className={role}>{parts.map(({ text }) => text)}</p>
      ))}
      <form onSubmit={ask}>
        <input name="question" aria-label="Your question" required autoFocus />
        {isAnswering ? <button type="button" onClick={stop}>Stop</button> : <button>Ask</button>}
      </form>
      <p role="status">{status}</p>
    </>
  );
}

createRoot(document.querySelector("main")).render(<Page />);
