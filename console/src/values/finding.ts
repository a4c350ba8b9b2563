/** Finding: what a text means that names a stream or a group of it, and what matches. */

/** A group of a stream, as it is found. */
export interface Found {
  stream: string;
  group: string;
  lag: number | null | undefined;
}

/** What was typed: the beginning of a stream's name; behind a slash, the beginning of a group's. */
export interface Wanted {
  stream: string;
  /** Undefined without a slash: then a part of the name of a group may have been typed, too. */
  group: string | undefined;
}

/** Return what a text asks for: `orders`, `orders/bill`, `orders / bill`. */
export function wantedOf(text: string): Wanted {
  const [stream = "", ...rest] = text.split("/");
  return { stream: stream.trim(), group: rest.length ? rest.join("/").trim() : undefined };
}

/** Return the groups that match, those first whose names begin as typed, each of them once. */
export function matching(groups: readonly Found[], { stream, group }: Wanted): Found[] {
  const once = new Map(groups.map((each) => [JSON.stringify([each.stream, each.group]), each]));
  const like = [...once.values()].filter((each) =>
    group === undefined ? stream !== "" && each.group.toLowerCase().includes(stream.toLowerCase()) : each.stream.startsWith(stream) && each.group.startsWith(group),
  );
  const typed = group ?? stream;
  return like.toSorted((a, b) => Number(b.group.startsWith(typed)) - Number(a.group.startsWith(typed)));
}
