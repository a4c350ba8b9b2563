// A page with the three hooks: it shows a stream, works a group, and appends.
import type { Client, Job } from "@headgate/client";
import { HeadgateProvider, useAppend, useGroup, useStream } from "@headgate/react";

export interface PageProps {
  client: Client;
  onJob: (job: Job) => unknown;
}

function Orders({ onJob }: Omit<PageProps, "client">) {
  const { entries, state, error } = useStream("orders", { last: 500, limit: 1000 });
  const work = useGroup("orders", "readers", onJob);
  const { append, isPending } = useAppend("orders");
  return (
    <main>
      <h1>Orders</h1>
      <button disabled={isPending} onClick={() => append({ n: "clicked" })}>append</button>
      <dl>
        <dt>stream</dt>
        <dd id="stream" data-state={state}>{state}, {entries.length} entries {String(error ?? "")}</dd>
        <dt>group</dt>
        <dd id="group" data-state={work.state}>
          {work.state}, {work.done} done, {work.failed} failed {String(work.error ?? "")}
        </dd>
      </dl>
      <ul>{entries.map(({ id, fields }) => <li key={id} data-id={id}>{id} {fields["n"]}</li>)}</ul>
    </main>
  );
}

export function Page({ client, onJob }: PageProps) {
  return <HeadgateProvider client={client}><Orders onJob={onJob} /></HeadgateProvider>;
}
