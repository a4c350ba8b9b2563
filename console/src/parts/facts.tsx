/** Facts: a few values with their names. */
import type { ComponentChildren } from "preact";

export interface Fact {
  name: string;
  value: ComponentChildren;
  title?: string;
  class?: string;
}

export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(({ name, value, title, class: kind }) => (
        <div class={kind} title={title}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
