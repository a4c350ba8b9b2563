// The page on a server: it is rendered once, and nothing is connected.
import { createClient } from "@headgate/client";
import { renderToString } from "react-dom/server";
import { Page } from "./page.js";

const client = createClient({ url: "http://localhost:1", onState: (state) => console.error(state) });
console.log(renderToString(<Page client={client} onJob={() => {}} />));
