/** Principal: who this page is to the gateway, and what it may do. */
import { signal } from "@preact/signals";
import type { Principal } from "./shapes.js";

export type Right = Principal["allowed"][number]["do"][number];

/** The need of an act: a right on a stream, and a group of it; without a stream, on the gateway. */
export interface Need {
  right: Right;
  stream?: string;
  group?: string;
}

/** Undefined until the gateway has said it. */
export const principal = signal<Principal | undefined>();

/** Return why something is not allowed, if that is known. */
export function denialOf({ right, stream, group }: Need): string | undefined {
  const mayBe = principal.value?.allowed.some(
    (each) => each.do.includes(right) && isNamed(each.streams, stream) && (each.groups === null || isNamed(each.groups, group)),
  );
  return mayBe === false ? `This needs ${right} on ${stream ?? "the gateway"}, and the credential does not allow it.` : undefined;
}

/** Tell whether patterns have a name; one that is not known yet may be among them. */
function isNamed(patterns: string[], name: string | undefined): boolean {
  return name === undefined || patterns.some((pattern) => pattern === name || (pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1))));
}
