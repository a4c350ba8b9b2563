/** Principal: who this page is to the gateway, and what it may do. */
import { computed, signal } from "@preact/signals";
import type { Principal } from "./shapes.js";

export type Right = Principal["allowed"][number]["do"][number];

/** The need of an act: a right, or several, on a stream, and a group of it; without a stream, on the gateway. */
export interface Need {
  right: Right | Right[];
  stream?: string;
  group?: string;
}

/** Undefined until the gateway has said it. */
export const principal = signal<Principal | undefined>();

/** Whether the keys of the gateway are shown. */
export const mayManageKeys = computed(() => principal.value !== undefined && denialOf({ right: "admin" }) === undefined);

/** Return why something is not allowed, if that is known. */
export function denialOf({ right, stream, group }: Need): string | undefined {
  const allowed = principal.value?.allowed.filter(
    (each) => isNamed(each.streams, stream) && (each.groups === null || isNamed(each.groups, group)),
  );
  const missing = allowed && [right].flat().find((own) => !allowed.some((each) => each.do.includes(own)));
  return missing && `Your credential does not grant ${missing} on ${stream ?? "the gateway"}.`;
}

/** Return the rights that an act needs, as people read them. */
export function rightsOf({ right }: Need): string {
  return [right].flat().join(", ");
}

/** Tell whether patterns have a name; one that is not known yet may be among them. */
function isNamed(patterns: string[], name: string | undefined): boolean {
  return name === undefined || patterns.some((pattern) => pattern === name || (pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1))));
}
