"""Jobs, one file each: a pure `transform(df) -> df` if there is one, and the command `main`."""
