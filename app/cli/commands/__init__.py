"""One file per command, loaded when it is asked for."""
