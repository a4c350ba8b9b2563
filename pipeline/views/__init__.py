"""Views: streams of the lake as tables with typed columns."""
