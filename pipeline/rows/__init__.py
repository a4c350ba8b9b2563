"""Rows: entries for Spark, Arrow and people, and back."""
