/** Live: the one connection by which streams are followed. */
import { type Client, type Following, type FollowHandlers, createClient } from "@headgate/client";
import { key } from "./key.js";
import { gatewayUrl } from "./place.js";

let client: Client | undefined;
let clientKey: string | undefined;

/** Follow a stream; the entries come in the shape of the contract but for the names of their facts. */
export function follow(stream: string, handlers: FollowHandlers): Following {
  if (!client || clientKey !== key.value) {
    client?.close();
    clientKey = key.value;
    // The page itself came this way, so the key goes no other.
    client = createClient({ url: gatewayUrl, token: clientKey, insecure: true });
  }
  return client.stream(stream).subscribe(handlers);
}
