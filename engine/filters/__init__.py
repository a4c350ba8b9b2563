"""Filters: conditions on the fields of entries. Groups, followers and bulk reads go by them."""
