// The readers of a gateway: how many wait for what comes, and an end of their connections as an operator makes it.

export async function untilWaiting(gateway, count) {
  for (let waiting = -1; waiting !== count; ) {
    const metrics = await (await fetch(`${gateway}/metrics`)).text();
    waiting = Number(metrics.match(/^headgate_waiters(?:\{.*\})? (\d+)/m)[1]);
  }
}

export async function endConnections(gateway) {
  const list = `${gateway}/v1/admin/connections`;
  const { connections } = await (await fetch(list)).json();
  for (const { id } of connections) await fetch(`${list}/${id}`, { method: "DELETE" });
  return connections.length;
}
