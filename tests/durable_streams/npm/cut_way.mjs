// A way to the gateway that can be cut. What is cut off connects again, over the same way.

import net from "node:net";

export async function cutWay(target) {
  const { hostname, port } = new URL(target);
  const sockets = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const [each, other] of [[near, far], [far, near]]) {
      sockets.add(each);
      each.pipe(other);
      each.on("error", () => other.destroy());
      each.on("close", () => sockets.delete(each) && other.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => sockets.forEach((each) => each.resetAndDestroy());
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut,
    end: () => (server.close(), cut()),
  };
}
