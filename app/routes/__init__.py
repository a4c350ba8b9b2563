"""One file per noun of the interface. Routes do not know each other."""
