// The page in a browser. What it has worked on, it writes down for the test.
import { type ConnectionState, createClient, type Job } from "@headgate/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Page } from "./page.js";

declare global {
  interface Window {
    freshToken: () => Promise<string>;
    states: ConnectionState[];
  }
}

window.states = [];
const url = new URLSearchParams(location.search).get("url") ?? "";
const client = createClient({
  url,
  token: () => window.freshToken(),
  hiddenMs: 300,
  onState: (state) => window.states.push(state),
});
const tab = `worked:${(sessionStorage["tab"] ??= Math.random().toString(36).slice(2))}`;
const onJob = (job: Job) => {
  localStorage[tab] = `${localStorage[tab] ?? ""}${job.id} `;
};
createRoot(document.getElementById("root")!).render(<StrictMode><Page client={client} onJob={onJob} /></StrictMode>);
