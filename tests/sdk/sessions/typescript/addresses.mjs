// Appends at three addresses, of which the last one leads, and prints the addresses that were asked, with a token.
import { createClient } from "@headgate/client";

const [leader] = process.argv.slice(2);
const url = ["https://a.example", "https://b.example/, https://c.example"];
const asked = [];
async function fetch(place, { headers }) {
  asked.push(`${place.origin} ${headers.get("authorization")}`);
  if (place.origin === "https://c.example") return Response.json({ id: "1-0" });
  return Response.json({ code: "not_leader", status: 503, detail: "no", retryable: true, leader }, { status: 503 });
}
const hg = createClient({ url, token: "secret", fetch });
await hg.stream("orders").append({ n: "1" });
console.log(JSON.stringify({ asked, url: hg.url }));
hg.close();
