/** Tabs: the parts of a view, each with an address. */
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  current: string;
  tabs: { name: string; title: string; place: string; count?: string | undefined }[];
}

export function Tabs({ label, current, tabs }: Props) {
  const bar = useRef<HTMLElement>(null);
  const known = tabs.filter(({ count }) => count !== undefined).length; // each makes the bar wider
  useEffect(() => {
    const link = bar.current!.querySelector<HTMLElement>("[aria-current]");
    if (link) bar.current!.scrollLeft = link.offsetLeft + link.offsetWidth - bar.current!.offsetLeft - bar.current!.clientWidth;
  }, [current, known]);
  return (
    <nav ref={bar} class="tabs" aria-label={label}>
      {tabs.map(({ name, title, place, count }) => (
        <a href={place} aria-current={name === current ? "page" : undefined}>
          {title}
          {count !== undefined && <small>{count}</small>}
        </a>
      ))}
    </nav>
  );
}
