/** Tabs: the parts of a view, each with an address. */
interface Props {
  label: string;
  current: string;
  tabs: { name: string; title: string; place: string; count?: string | undefined }[];
}

export function Tabs({ label, current, tabs }: Props) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ name, title, place, count }) => (
        <a href={place} aria-current={name === current ? "page" : undefined}>
          {title}
          {count !== undefined && <small>{count}</small>}
        </a>
      ))}
    </nav>
  );
}
