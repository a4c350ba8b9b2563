"""One file per job: a pure `transform(df) -> df` where there is one, and `main`, which wires it."""
