"""Rows: entries as Spark, Arrow and people take them, and back."""
