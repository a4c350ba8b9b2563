"""Site: the guide and the problems as static files."""
