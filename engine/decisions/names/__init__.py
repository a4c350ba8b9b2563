"""Names: decisions about many streams, chosen by their names."""
