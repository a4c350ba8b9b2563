// Follows a stream with tokens that end soon; one JSON line for all that happens.
// `renewed`: a function makes each token; `late`: the first has ended; `fixed`: one token; `refused`: a token that
// nobody takes; `same`: a function that returns no other.
import { createClient } from "@headgate/client";
import { SignJWT } from "jose";
import WebSocket from "ws";

const [url, how, ttlS, secret] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const grants = [{ streams: ["talk"], do: ["read", "append"], create: true }];
let count = 0;

async function token() {
  say({ token: (count += 1) });
  return new SignJWT({ sub: "me", headgate: grants })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuedAt()
    .setJti(String(count))
    .setExpirationTime(how === "late" && count === 1 ? "-60s" : `${ttlS}s`)
    .sign(new TextEncoder().encode(secret));
}

const refused = "hg_nobody_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const fixed = how === "fixed" ? await token() : "";
const tokens = { renewed: token, late: token, fixed, refused, same: () => refused };
const hg = createClient({ url, WebSocket, token: tokens[how], onState: (state, code) => say({ state, code }) });
const follow = (stream, after) =>
  hg.stream(stream).subscribe({
    after,
    onEntries: (entries) => entries.forEach(({ id }) => say({ tailed: id })),
    onError: ({ code }) => say({ ended: code }),
  });
if (how !== "late") {
  follow("talk", "0");
  follow("secret", "$");
}
process.stdin.on("data", async () => {
  say(await hg.ticket({ stream: "talk", do: ["read"], ttlMs: 60_000 }));
});
process.stdin.on("end", () => hg.close());
