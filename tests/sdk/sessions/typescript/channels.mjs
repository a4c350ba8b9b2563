// Is present at a channel, and says in lines of JSON what it hears; does what lines of JSON tell it to.
import { createInterface } from "node:readline";
import { createClient } from "@headgate/client";
import WebSocket from "ws";

const [url, transport] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const onError = (error) => say({ told: error.code ?? error.message });
const hg = createClient({ url, onError, ...(transport === "events" ? { transport } : { WebSocket }) });
const room = hg.channel("room-1");
let here;
const namesOf = (members) => members.flatMap(({ connections }) => connections.map(({ data }) => data.name ?? data)).sort();
const doing = {
  enter: (presence) => (here = room.subscribe({
    presence,
    onConnection: (connection) => say({ connection }),
    onError: (error) => say({ refused: error.code }),
    onMembers: (members) => say({ members: namesOf(members) }),
    onMessage: ({ data, dropped }) => {
      if (data === "throw") throw new Error("a callback has thrown");
      say({ heard: data, dropped });
    },
  })),
  update: (changes) => changes.forEach((data) => here.update(data)),
  publish: async (data) => say({ receivers: await room.publish(data).catch(({ code }) => code) }),
  flood: async (count) => {
    const all = await Promise.allSettled(Array.from({ length: count }, (_, number) => room.publish(number)));
    say({ published: all.filter(({ status }) => status === "fulfilled").length });
  },
  ask: async () => say({ asked: namesOf((await room.members()).members) }),
  leave: () => here.close(),
};
for await (const line of createInterface(process.stdin)) {
  const [[name, value]] = Object.entries(JSON.parse(line));
  await doing[name](value);
}
hg.close();
