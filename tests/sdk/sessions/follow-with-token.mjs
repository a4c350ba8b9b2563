// Follows a stream with tokens that end soon; one JSON line for all that happens.
// `renewed`: a function makes each token; `fixed`: one token; `refused`: a token that nobody takes.
import { HeadgateClient, createTicket } from "./headgate-client.js";
import { SignJWT } from "jose";

const [gateway, how, ttlS, secret] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const grants = [{ streams: ["talk"], do: ["read", "append"], create: true }];
let count = 0;

async function token() {
  say({ token: (count += 1) });
  return new SignJWT({ sub: "me", headgate: grants })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuedAt()
    .setJti(String(count))
    .setExpirationTime(`${ttlS}s`)
    .sign(new TextEncoder().encode(secret));
}

const refused = "hg_nobody_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const tokens = { renewed: token, fixed: how === "fixed" ? await token() : "", refused, same: () => refused };
const client = new HeadgateClient(gateway, {
  token: tokens[how],
  onState: (state, code) => say({ state, code }),
});
client.subscribe("tail", { stream: "talk", after: "0" }, {
  entries: (entries) => entries.forEach(({ id }) => say({ tailed: id })),
});
client.subscribe("other", { stream: "secret" }, {
  entries: () => {},
  ended: (code) => say({ ended: code }),
});
process.stdin.on("data", async () => {
  say({ ticket: await createTicket(gateway, tokens[how], { stream: "talk", do: ["read"], ttl_ms: 60_000 }) });
});
process.stdin.on("end", () => client.close());
