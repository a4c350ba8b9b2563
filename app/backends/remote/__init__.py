"""The engine of another process of this machine, over a Unix socket."""
