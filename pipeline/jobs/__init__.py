"""Jobs, a file each: a pure `transform(df) -> df` if there is one, and `main`, which wires it."""
